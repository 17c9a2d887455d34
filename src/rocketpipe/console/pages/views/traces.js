// The way of a message on one line of time: who did what with it, and for how long.
import { html, useState, useEffect, t, useApi, go, moment, number } from "../lib/core.js";
import { Head, Card, Badge, Problem, Loading, Empty, Field, Copy, topicLink } from "../lib/ui.js";

export function Traces({ route }) {
  const { query } = route;
  const given = query.id || query.key || "";
  const [text, setText] = useState(given);
  useEffect(() => setText(given), [given]);
  const { data, error, reload } = useApi(given && "traces", { id: given, topic: query.topic });
  const search = (event) => {
    event.preventDefault();
    go(["traces"], { id: text.trim() });
  };
  return html`<${Head} title=${t("nav.traces")} sub=${t("traces.sub")} />
    <form class="bar" onSubmit=${search}><${Field} label=${t("traces.by")}><input size="44" value=${text} onInput=${(event) => setText(event.target.value)} spellcheck=${false} required /><//><button class="primary">${t("search.do")}</button></form>
    <${Problem} error=${error} retry=${reload} />
    ${given && !data && !error && html`<${Loading} />`}
    ${data && data.rows.length === 0 && html`<${Empty} hint=${data.untraced ? "Producer(…, trace=True)" : ""}>${data.untraced ? t("traces.untraced") : t("traces.none")}<//>`}
    ${data?.rows.map((trace) => html`<${Trace} key=${trace.id} trace=${trace} />`)}
    ${data && !data.complete && html`<p>${t("list.cut")}</p>`}`;
}

function Trace({ trace }) {
  const begin = Math.min(...trace.steps.map((each) => each.begin_ms));
  const end = Math.max(...trace.steps.map((each) => each.end_ms ?? each.begin_ms), begin + 1);
  const at = (ms) => ((ms - begin) / (end - begin)) * 100;
  const kind = (step) => (step.ok === null || step.ok === undefined ? "info" : step.ok ? "good" : "bad");
  const title = html`<span class="wrap">${trace.id}</span>`;
  return html`<${Card} title=${title} aside=${html`<${Copy} text=${trace.id} />`}>
    <p>${trace.topic && html`<a href=${topicLink(trace.topic)}>${trace.topic}</a>`} ${trace.keys.length > 0 && html`· ${t("keys.word")} ${trace.keys.join(" ")}`} · ${moment(begin, { millis: true })}</p>
    <ol class="timeline">
      ${trace.steps.map((step) => {
        const took = step.end_ms === null ? null : step.end_ms - step.begin_ms;
        const left = Math.min(at(step.begin_ms), 99);
        const wide = Math.max(0.6, took === null ? 100 - left : at(step.end_ms) - left);
        return html`<li>
          <div class="step"><${Badge} kind=${kind(step)}>${t(`step.${step.kind}`)}<//> <strong class="wrap">${step.group || "–"}</strong>
            ${step.retries ? html`<span class="dim">${t("step.retry", { count: step.retries })}</span>` : ""}</div>
          <div class="lane"><span class=${`span ${kind(step)}`} style=${{ left: `${left}%`, width: `${Math.min(wide, 100 - left)}%` }}></span></div>
          <div class="took">+${number(step.begin_ms - begin)} ms · ${took === null ? t("step.unended") : `${number(took)} ms`} <span class="dim wrap">${[step.host, step.note].filter(Boolean).join(" · ")}</span></div>
        </li>`;
      })}
    </ol>
    ${trace.silent_groups.length > 0 && html`<p class="dim">${t("traces.silent", { groups: trace.silent_groups.join(", ") })}</p>`}
  <//>`;
}
