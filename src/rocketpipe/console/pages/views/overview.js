// How the cluster stands, what is wrong with it, and the command that helps.
import { html, useState, t, useApi, useLive, number, clock } from "../lib/core.js";
import { Head, Card, Figure, Badge, Problem, Loading, Chart, Copy } from "../lib/ui.js";

const KINDS = { problem: "bad", warning: "warn", unknown: "info", ok: "good" };
const percent = (value) => `${number(value)} %`;

/** A remedy often has a command in it: that is shown to be copied. */
function Remedy({ text }) {
  if (!text) return null;
  const pieces = text.split(/`([^`]+)`|\b(rocketpipe [a-z][^;,]*)/).filter((each) => each !== undefined);
  return html`<div class="remedy">${pieces.map((each) => (/^rocketpipe [a-z]/.test(each)
    ? html`<code>${each.trim()}</code><${Copy} text=${each.trim()} />` : each))}</div>`;
}

export function Findings({ found }) {
  return html`<ul class="findings">${found.map((each) => html`<li>
    <${Badge} kind=${KINDS[each.level]}>${t(`level.${each.level}`)}<//>
    <div><strong class="wrap">${each.what}</strong> <span class="wrap">${each.detail}</span><${Remedy} text=${each.remedy} /></div></li>`)}</ul>`;
}

function Tile({ title, figure, unit, series, as, limit }) {
  return html`<${Card} kind="tile"><h2>${title}</h2><p class="big"><${Figure} of=${figure} as=${as || number} /> <small>${unit}</small></p>
    ${series && html`<${Chart} title=${title} series=${series} unit=${unit} as=${as} limit=${limit} height=${110} />`}<//>`;
}

export function Overview() {
  const { data, error, reload } = useApi("overview");
  const [news, setNews] = useState(null);
  const [points, setPoints] = useState({});
  const [all, setAll] = useState(false);
  useLive(data && "overview", {}, {
    overview: (found) => {
      setNews(found);
      setPoints((before) => Object.fromEntries(["in", "out", "disk"].map((name) => {
        const old = before[name] || data.series[name];
        return [name, { times: [...old.times, found.as_of_ms].slice(-720), values: [...old.values, found[name].value ?? null].slice(-720) }];
      })));
    },
  });
  if (error && !data) return html`<${Head} title=${t("nav.overview")} /><${Problem} error=${error} retry=${reload} />`;
  if (!data) return html`<${Head} title=${t("nav.overview")} /><${Loading} />`;
  const now = { ...data, ...news };
  const wrong = now.findings.filter((each) => each.level !== "ok");
  const fine = now.findings.filter((each) => each.level === "ok");
  const series = (name) => points[name] || data.series[name];
  return html`<${Head} title=${t("nav.overview")} sub=${now.clusters.join(", ")} />
    <${Problem} error=${error} />
    <div class="posture">
      <span>${t("overview.servers", { servers: data.name_servers })}</span>
      <${Badge} kind=${data.guarded ? "good" : "warn"}>${data.guarded ? t("access.guarded") : t("access.open")}<//>
      <span>${t("nav.brokers")} <${Figure} of=${now.brokers} /></span>
      <a href="#/topics">${t("nav.topics")} <${Figure} of=${data.topics} /></a>
      <a href="#/groups">${t("nav.groups")} <${Figure} of=${data.groups} /></a>
    </div>
    <div class="tiles">
      <${Tile} title=${t("overview.in")} figure=${now.in} unit=${t("per.second")} series=${series("in")} />
      <${Tile} title=${t("overview.out")} figure=${now.out} unit=${t("per.second")} series=${series("out")} />
      <${Tile} title=${t("overview.disk")} figure=${now.disk} as=${percent} series=${series("disk")} limit=${100} />
    </div>
    <${Card} title=${t("overview.findings")} aside=${html`<span class="dim">${now.checking ? t("overview.checking") : now.checked_ms && t("overview.checked", { time: clock(now.checked_ms) })}</span>`}>
      ${now.checked_ms === null ? html`<${Loading} />` : wrong.length === 0
        ? html`<p class="fine"><${Badge} kind="good">${t("overview.fine")}<//> ${t("overview.looked", { count: fine.length })}</p>`
        : html`<${Findings} found=${wrong} />`}
      ${fine.length > 0 && html`<button class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? t("overview.less") : t("overview.more", { count: fine.length })}</button>`}
      ${all && html`<${Findings} found=${fine} />`}
      ${now.findings_left_out > 0 && html`<p>${t("overview.left.out", { count: now.findings_left_out })} <code>rocketpipe doctor</code></p>`}
    <//>`;
}
