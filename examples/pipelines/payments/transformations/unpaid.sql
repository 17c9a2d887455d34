-- Orders that were not paid in time, or not in full.
CREATE MATERIALIZED VIEW unpaid AS
SELECT order_id, cents - coalesce(paid_cents, 0) AS missing_cents
FROM order_payments
WHERE coalesce(paid_cents, 0) < cents;
