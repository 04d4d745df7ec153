# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # What would last month's prompts have cost?
#
# A proxy logged which model answered each prompt, what that cost, and whether the answer was correct. Most prompts were
# answered by one model. This notebook builds a portfolio from the log, and checks its promise on prompts of the next
# month. Start the service first: `make serve`.

# %%
import json

import matplotlib.pyplot as plt
import numpy as np

from app.demo.simulated_models import MODELS, make_prompts  # three simulated models
from parsimony import Parsimony

client = Parsimony(timeout_s=120)

# %% [markdown]
# ## The log
#
# Longer prompts were sent to the large model more often. Estimates account for that.

# %%
rng = np.random.default_rng(3)
prompts = make_prompts(3000, rng)
this_month, next_month = prompts[:2000], prompts[2000:]


def log_calls(prompt: str) -> list[dict]:
    """Return one logged call, or for 15 % of the prompts the calls of all models."""
    shares = [0.5, 0.2, 0.3] if len(prompt) < 170 else [0.2, 0.2, 0.6]
    chosen = MODELS if rng.random() < 0.15 else [MODELS[rng.choice(3, p=shares)]]
    replies = [(model, model.answer_prompt(prompt)) for model in chosen]
    return [
        {"model": model.name, "prompt": prompt, "correct": reply.correct, "cost": reply.cost}
        for model, reply in replies
    ]


calls = [call for prompt in this_month for call in log_calls(prompt)]
log = "\n".join(map(json.dumps, calls))
print(f"{len(calls):,} calls for {len(this_month):,} prompts")

# %% [markdown]
# ## The portfolio
#
# The service recognizes the format, embeds the prompts, and learns when each model is correct. Without limits, the
# portfolio is about as accurate as the log, and costs less.

# %%
options = ("options.json", '{"unit": "USD"}', "application/json")
client.call("PUT", "/v1/datasets/last-month/calls", files={"log": ("calls.jsonl", log), "options": options})
record = client.build("portfolio", "last-month", "last-month")
savings = record["savings"]
today = savings["today"]
print(f"as logged: {today['accuracy']:.1%} correct at {1000 * today['cost']:.3f} USD per 1,000 prompts")
print(f"promised: {savings['accuracy']:.1%} correct at {1000 * savings['cost']:.3f} USD per 1,000 prompts")

# %% [markdown]
# ## The trade-off

# %%
points = client.portfolio("last-month").curve()["points"]
costs = [1000 * point["expected"]["cost"] for point in points]
plt.plot(costs, [point["expected"]["accuracy"] for point in points], label="portfolio")
for baseline in savings["baselines"]:
    plt.plot(1000 * baseline["cost"], baseline["accuracy"], "o", label=baseline["name"])
plt.xlabel("USD per 1,000 prompts")
plt.ylabel("accuracy")
plt.legend()

# %% [markdown]
# ## The promise, checked
#
# Each prompt of the next month is routed, and the chosen model answers it.

# %%
by_name = {model.name: model for model in MODELS}
routed = [client.portfolio("last-month").decide(text=prompt) for prompt in next_month]
replies = [by_name[one["classifier"]].answer_prompt(prompt) for one, prompt in zip(routed, next_month)]
cost = 1000 * np.mean([reply.cost for reply in replies])
accuracy = np.mean([reply.correct for reply in replies])
strongest = [MODELS[-1].answer_prompt(prompt) for prompt in next_month]
print(f"next month: {accuracy:.1%} correct at {cost:.3f} USD per 1,000 prompts")
print(
    f"always {MODELS[-1].name}: {np.mean([reply.correct for reply in strongest]):.1%} correct "
    f"at {1000 * np.mean([reply.cost for reply in strongest]):.3f} USD"
)
