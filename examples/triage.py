# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Triage: errors that cost differently
#
# Seven percent of the patients are sick. Missing one costs 2,000 EUR, a false alarm 100 EUR, and each test has a
# price. A policy orders the tests that repay their price, given the results so far. Everything runs in this process.

# %%
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from parsimony.estimators import PolicyClassifier

# %% [markdown]
# ## Patients
#
# Four hidden causes, and six tests that see them with more or less noise.

# %%
PRICES = [0.0, 2.0, 6.0, 8.0, 30.0, 60.0]
LOSSES = {"sick": {"well": 2000.0}, "well": {"sick": 100.0}}


def make_patients(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tests, (n, 6), and diagnoses, (n,)."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n, 3))
    noise = rng.normal(size=(n, 6)) * [1.5, 1.0, 0.7, 0.6, 0.3, 0.2]
    seen = causes @ [[0.6, 0.8, 1, 0, 0, 0.7], [0.5, 0, 0, 1, 0, 0.7], [0.4, 0, 0, 0, 1, 0]]
    chance = 1 / (1 + np.exp(-(2.2 * causes.sum(axis=1) - 6)))
    return seen + noise, np.where(rng.random(n) < chance, "sick", "well")


tests, diagnoses = make_patients(2000, 0)
unseen, truths = make_patients(4000, 1)
print(f"{(truths == 'sick').mean():.1%} sick")

# %% [markdown]
# ## Fit and predict

# %%
policy = PolicyClassifier(PRICES, losses=LOSSES, unit="EUR").fit(tests, diagnoses)
answers = policy.predict(unseen)


def mean_loss(given: np.ndarray) -> float:
    """Return the mean loss of answers for the unseen patients."""
    return float(np.mean([LOSSES[truth].get(answer, 0.0) for truth, answer in zip(truths, given)]))


own = policy.costs_.mean() + mean_loss(answers)
print(f"policy: {policy.costs_.mean():.1f} EUR of tests + {mean_loss(answers):.1f} EUR of errors = {own:.1f} EUR")

policy.plot()

# %% [markdown]
# ## Tests that share set-up work
#
# Three tests need blood, and drawing it costs 10 EUR: the first of them costs 10 EUR more, the others nothing more.
# Without `setup`, each of them seems to cost 10 EUR more.

# %%
apart = [price + 10 * (test in (1, 2, 3)) for test, price in enumerate(PRICES)]
together = PolicyClassifier(PRICES, setup={"draw blood": (10.0, [1, 2, 3])}, losses=LOSSES, unit="EUR")
for name, one in (("each draws blood", PolicyClassifier(apart, losses=LOSSES, unit="EUR")), ("one draw", together)):
    loss = mean_loss(one.fit(tests, diagnoses).predict(unseen))
    draws = 10 * np.mean([bool({1, 2, 3} & {*path}) for path in one.paths_])
    paid = np.mean([sum(PRICES[test] for test in path) for path in one.paths_]) + draws
    print(f"{name}: {paid:.1f} EUR of tests + {loss:.1f} EUR of errors = {paid + loss:.1f} EUR per patient")

# %% [markdown]
# ## The strongest simple alternative
#
# The same tests for all patients, with gradient boosting and the threshold that the losses imply.

# %%
for used in ([0], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]):
    model = HistGradientBoostingClassifier(random_state=0).fit(tests[:, used], diagnoses)
    sick = model.predict_proba(unseen[:, used])[:, 0] > 100 / 2100
    price = sum(PRICES[at] for at in used)
    total = price + mean_loss(np.where(sick, "sick", "well"))
    print(f"tests {used}: {price:.1f} EUR of tests, {total:.1f} EUR in total")
