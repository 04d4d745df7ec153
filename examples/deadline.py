# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Images with a deadline
#
# Two classifiers of handwritten digits: a fast one in this process, and a better one that takes as long as a remote
# model. A recorder measures them, a cascade is built from its rows, and each image is answered within 200 ms. Start the
# service first: `make serve`.

# %%
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from parsimony import Parsimony

client = Parsimony(timeout_s=120)
images, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
learn, traced, unseen = order[:500], order[500:1300], order[1300:]

# %% [markdown]
# ## Two classifiers

# %%
logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(images[learn], labels[learn])
machine = SVC(C=10, probability=True, random_state=0).fit(images[learn], labels[learn])


def ask_remote(image: np.ndarray) -> tuple[str, float]:
    """Return the digit and its probability, after 20 ms."""
    time.sleep(0.02)
    shares = machine.predict_proba([image])[0]
    return str(shares.argmax()), float(shares.max())


classifiers = {"logistic": logistic, "remote": ask_remote}

# %% [markdown]
# ## Record them
#
# `explore=1` calls all classifiers for each image, in another thread. In production, a share of the items is enough.

# %%
with client.record("deadline", classifiers, unit="ms", explore=1.0) as recorder:
    for at in traced:
        recorder.call("logistic", images[at], item_id=str(at))
        recorder.add_truth(str(at), str(labels[at]))
        while recorder.waiting > 10:
            time.sleep(0.001)
    print(recorder.freeze("deadline")["rows"], "rows")

# %% [markdown]
# ## Build, and run within the deadline
#
# A classifier is called only if it ends in time at its worst-case time.

# %%
record = client.build("cascade", "deadline", "deadline")
print(record["savings"]["headline"])
cascade = client.cascade("deadline")
results = [cascade.run(images[at], classifiers, deadline_s=0.2, budget="50%") for at in unseen]
seconds = np.array([result.seconds for result in results])
accuracy = np.mean([result.label == str(labels[at]) for result, at in zip(results, unseen)])
print(f"{accuracy:.1%} correct, {1000 * seconds.mean():.1f} ms on average, {(seconds <= 0.2).mean():.1%} within 200 ms")
print("answered by:", {name: sum(result.answered_by == name for result in results) for name in classifiers})

# %%
always = np.mean([ask_remote(images[at])[0] == str(labels[at]) for at in unseen])
print(f"always the remote model: {always:.1%} correct")
