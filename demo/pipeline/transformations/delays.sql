-- What each carrier's flights were late in each hour, over all flights so far.
CREATE MATERIALIZED VIEW delays AS
SELECT
  carrier,
  date_trunc('HOUR', leaves) AS hour,
  count(*) AS flights,
  count(dep_time) AS departed,
  coalesce(sum(dep_delay), 0) AS delay_minutes
FROM flights
GROUP BY carrier, date_trunc('HOUR', leaves);
