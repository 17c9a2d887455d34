// Pipelines that this console was told of: what became of the last run of each.
import { html, t, useApi, moment, number, duration } from "../lib/core.js";
import { Head, Card, Table, Badge, Problem, Loading, Empty, topicLink } from "../lib/ui.js";

const KINDS = { running: "good", completed: "good", failed: "bad", died: "bad", stopped: "plain", skipped: "warn" };

export function Pipelines() {
  const { data, error, reload } = useApi("pipelines", {}, { every: 10000 });
  return html`<${Head} title=${t("nav.pipelines")} />
    <${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && data.rows.length === 0 && html`<${Empty} hint="rocketpipe console --pipeline DIR">${t("pipelines.none")}<//>`}
    ${data?.rows.map((each) => html`<${Pipeline} key=${each.name} of=${each} now=${data.as_of_ms} />`)}`;
}

function Pipeline({ of, now }) {
  const flows = [
    ["name", t("pipeline.flow"), (row) => html`<strong class="wrap">${row.name}</strong>`],
    ["topics", t("nav.topics"), (row) => row.topics.map((each) => html`<a href=${topicLink(each)}>${each}</a> `)],
    ["target", t("pipeline.target"), (row) => row.target || "–"],
    ["state", t("state"), (row) => html`<${Badge} kind=${KINDS[row.state] || "plain"}>${row.state}<//>`],
    ["rows", t("pipeline.rows"), (row) => number(row.rows), "right"],
    ["batches", t("pipeline.batches"), (row) => number(row.batches), "right"],
    ["last", t("pipeline.last"), (row) => (row.last_batch_ms === null ? "–" : duration(row.last_batch_ms / 1000)), "right"],
    ["error", t("error"), (row) => html`<span class="wrap">${row.error || "–"}</span>`, "grow"],
  ];
  const rules = [
    ["flow", t("pipeline.flow"), (row) => row.flow], ["rule", t("pipeline.rule"), (row) => row.rule], ["action", t("pipeline.action"), (row) => row.action],
    ["rows", t("pipeline.rows"), (row) => number(row.rows), "right"], ["failed", t("pipeline.failed"), (row) => number(row.failed), "right"],
  ];
  if (of.problem) return html`<${Card} title=${of.name}><p>${of.problem}</p><//>`;
  if (!of.state) return html`<${Card} title=${of.name}><p class="dim">${t("pipeline.never")}</p><//>`;
  return html`<${Card} title=${of.name} aside=${html`<${Badge} kind=${KINDS[of.state] || "plain"}>${of.state}<//>`}>
    <p class="dim">${t("pipeline.began", { time: moment(of.began_ms) })}${of.ended_ms ? ` · ${t("pipeline.ended", { time: moment(of.ended_ms) })}` : ` · ${duration((now - of.began_ms) / 1000)}`}</p>
    ${of.error && html`<p class="problem wrap">${of.error}</p>`}
    <${Table} label=${t("pipeline.flows")} columns=${flows} rows=${of.flows} rowKey=${(row) => row.name} />
    ${of.rules.length > 0 && html`<h3>${t("pipeline.rules")}</h3><${Table} label=${t("pipeline.rules")} columns=${rules} rows=${of.rules} />`}
  <//>`;
}
