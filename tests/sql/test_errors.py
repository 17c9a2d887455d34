from __future__ import annotations

from rocketpipe.sql.errors import told_by_spark, unknown_table

SYNTAX = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'orders': extra input 'orders'. \
SQLSTATE: 42601 (line 1, pos 14)

== SQL ==
SELECT * FORM orders
--------------^^^
"""
COLUMN = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `citi` cannot be resolved. \
Did you mean one of the following? [`city`]. SQLSTATE: 42703; line 2 pos 1;
'Project ['citi]
+- SubqueryAlias orders
"""
RUN_TIME = """[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012
== SQL (line 1, position 8) ==
SELECT 1/0
       ^^^
"""
OURS = """[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: \
rocketpipe.errors.ConnectionLost: 127.0.0.1:1: no NameServer answers; is one running there?
 SQLSTATE: 38000"""


def test_a_syntax_error_is_a_line_and_points_at_its_place() -> None:
    error = told_by_spark(SYNTAX, "SELECT * FORM orders")
    assert str(error) == "Syntax error at or near 'orders': extra input 'orders' (line 1, pos 14)"
    assert error.hint == "SELECT * FORM orders\n  " + " " * 14 + "^"


def test_an_unknown_column_keeps_what_spark_suggests() -> None:
    error = told_by_spark(COLUMN, "SELECT\n citi FROM orders")
    assert str(error).endswith("Did you mean one of the following? [`city`] (line 2, pos 1)")
    assert error.hint == " citi FROM orders\n   ^"
    assert "Project" not in str(error)


def test_what_fails_on_the_way_points_too() -> None:
    error = told_by_spark(RUN_TIME, "SELECT 1/0")
    assert str(error) == "Division by zero (line 1, pos 7)"
    assert error.hint == "SELECT 1/0\n  " + " " * 7 + "^"


def test_an_error_of_ours_is_told_in_its_own_words() -> None:
    error = told_by_spark(OURS, "SELECT 1")
    assert str(error) == "127.0.0.1:1: no NameServer answers; is one running there?"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    known = ["Orders", "payments", "rocketpipe.groups"]
    assert str(unknown_table("ordrs", known)).endswith("'ordrs': did you mean Orders?")
    assert "rocketpipe.groups?" in str(unknown_table("rocketpipe.group", known))
    assert "SHOW TABLES" in str(unknown_table("zzz", known))


def test_a_result_that_is_too_large_says_what_to_do() -> None:
    said = "An error occurred while calling o62.getResult.\n: org.apache.spark.SparkException: x\n"
    for cause in (
        "Caused by: org.apache.spark.SparkException: Total size of serialized results of 3 tasks "
        "(1100.0 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
        "Caused by: java.lang.OutOfMemoryError: Java heap space",
    ):
        assert "ask for less, with LIMIT" in str(told_by_spark(said + cause, "SELECT 1"))


def test_what_pyspark_does_not_put_into_words_is_what_java_says_it_came_from() -> None:
    said = (
        "An error occurred while calling o62.getResult.\n: a.Exception: in awaitResult:\n\tat a.b\n"
        "Caused by: a.Exception: Job aborted\n\tat c.d\n"
        "Caused by: java.io.IOException: disk is gone\n"
    )
    assert str(told_by_spark(said, "SELECT 1")) == "java.io.IOException: disk is gone"
