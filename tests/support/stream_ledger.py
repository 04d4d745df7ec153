"""What the store's script does with a stream's state, without a store."""

from solvers.portfolio.pacing import MAX_CREDIT, BudgetStream, StreamSpending


def record_cost(stream: BudgetStream, spending: StreamSpending, cost: float) -> StreamSpending:
    """Return the state after a query with this cost."""
    credit = min(max(spending.credit + stream.credit_change(spending, cost), -MAX_CREDIT), stream.max_credit)
    return StreamSpending(spending.spent + cost, spending.queries + 1, credit)
