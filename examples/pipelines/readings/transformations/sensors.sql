-- What each sensor has measured.
CREATE MATERIALIZED VIEW sensors AS
SELECT sensor, count(*) AS readings, min(celsius) AS coldest, max(celsius) AS warmest
FROM readings
GROUP BY sensor;
