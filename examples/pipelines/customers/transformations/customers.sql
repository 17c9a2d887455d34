-- The compacted view: the last value of each customer; those that were deleted are gone.
CREATE MATERIALIZED VIEW customers AS
SELECT customer, last.name, last.city, last.at AS since
FROM (
  SELECT customer, max_by(struct(at, name, city, is_deleted), queue_offset) AS last
  FROM customer_changes
  GROUP BY customer
)
WHERE NOT coalesce(last.is_deleted, false);

-- The slowly changing table: what was known of a customer from when to when.
CREATE MATERIALIZED VIEW customers_history AS
SELECT customer, name, city, valid_from, valid_to
FROM (
  SELECT
    customer, name, city, is_deleted,
    at AS valid_from,
    lead(at) OVER (PARTITION BY customer ORDER BY queue_offset) AS valid_to
  FROM customer_changes
)
WHERE NOT coalesce(is_deleted, false);
