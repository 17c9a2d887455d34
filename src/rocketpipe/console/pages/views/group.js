// One group: its lag by queue, its members and their stacks, moving it, and its settings.
import { html, useState, useMemo, t, useApi, useLive, go, link, post, number, duration, say, toInput, fromInput, moment, api } from "../lib/core.js";
import { Head, Tabs, Table, Card, Figure, Badge, Problem, Loading, Empty, Chart, Confirm, Field, Seconds, topicLink, Dialog } from "../lib/ui.js";
import { Findings } from "./overview.js";

export function Group({ route, who }) {
  const name = route.parts[1];
  const tab = route.query.tab || "lag";
  const { data, error, reload } = useApi(`groups/${encodeURIComponent(name)}`);
  const [news, setNews] = useState(null);
  const [later, setLater] = useState([]);
  useLive(data && tab === "lag" && `group:${name}`, {}, {
    group: (found) => {
      setNews(found);
      setLater((before) => [...before, [found.as_of_ms, found.lag?.value ?? null]].slice(-720));
    },
  });
  const now = { ...data, ...news };
  const tabs = ["lag", "members", "reset", "settings"].map((each) => [each, t(`group.tab.${each}`)]);
  const behind = later.filter(([at]) => at > (data?.series.times.at(-1) ?? 0));
  const series = useMemo(() => data && { times: [...data.series.times, ...behind.map(([at]) => at)], values: [...data.series.values, ...behind.map(([, lag]) => lag)] }, [data, behind.length]);
  return html`<${Head} title=${name} crumbs=${[[t("nav.groups"), link(["groups"])]]}
      sub=${data && html`${now.members?.value ? t("state.online") : t("state.offline")} · ${t("group.members")} <${Figure} of=${now.members} /> · ${t("group.lag")} <${Figure} of=${now.lag} /> · <${Seconds} of=${now.lag_s} />`}>
      <a class="button" href=${link(["dlq", name])}>${t("nav.dlq")}</a><//>
    <${Tabs} label=${name} tabs=${tabs} now=${tab} parts=${["groups", name]} />
    <${Problem} error=${error} retry=${reload} />
    ${data?.findings.some((each) => each.level !== "ok") && html`<${Card}><${Findings} found=${data.findings.filter((each) => each.level !== "ok")} /><//>`}
    ${!data && !error && html`<${Loading} />`}
    ${data && tab === "lag" && html`
      ${series.times.length > 0 && html`<${Card} title=${t("group.chart")}><${Chart} title=${t("group.chart")} series=${series} unit=${t("messages.word")} height=${130} /><//>`}
      <${Lag} name=${name} />`}
    ${tab === "members" && html`<${Members} name=${name} route=${route} />`}
    ${tab === "reset" && html`<${Reset} name=${name} route=${route} who=${who} />`}
    ${data && tab === "settings" && html`<${GroupSettings} data=${data} who=${who} />`}`;
}

function Lag({ name }) {
  const { data, error, reload } = useApi(`groups/${encodeURIComponent(name)}/lag`, {}, { every: 10000 });
  const columns = [
    ["topic", t("topic"), (row) => html`<a class="name" href=${topicLink(row.topic)}>${row.topic}</a>`],
    ["queue", t("queue"), (row) => (row.problem ? html`<${Figure} of=${{ unknown: row.problem }} />` : `${row.broker}/${row.queue}`)],
    ["committed", t("group.committed"), (row) => number(row.committed), "right"],
    ["end", t("queue.end"), (row) => number(row.end), "right"],
    ["lag", t("group.lag"), (row) => (row.lag === null || row.problem ? html`<${Figure} of=${{ unknown: t("broker.silent.short") }} />` : number(row.lag)), "right"],
    ["waits", t("group.waits"), (row) => (row.lag ? duration(row.waits_s) : "–"), "right"],
    ["owner", t("group.owner"), (row) => html`<span class="wrap">${row.owner || "–"}</span>`],
  ];
  return html`<${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("group.tab.lag")} columns=${columns} rows=${data.rows} />
      <p class="total">${t("total")}: <${Figure} of=${data.lag} /> ${t("messages.word")}</p>` : html`<${Empty}>${t("lag.none")}<//>`)}`;
}

function Members({ name, route }) {
  const { data, error, reload } = useApi(`groups/${encodeURIComponent(name)}/members`);
  const columns = [
    ["id", t("client"), (row) => html`<a class="name" href=${link(["groups", name], { tab: "members", client: row.id })}>${row.id}</a>`],
    ["address", t("address"), (row) => row.address || "–"],
    ["language", t("client.language"), (row) => row.language || "–"],
    ["brokers", t("nav.brokers"), (row) => row.brokers.join(", ")],
  ];
  return html`<${Problem} error=${error} retry=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.rows.length ? html`<${Table} label=${t("group.members")} columns=${columns} rows=${data.rows} />` : html`<${Empty}>${t("members.none")}<//>`)}
    ${data && !data.complete && html`<p>${t("list.cut")}</p>`}
    ${route.query.client && html`<${Client} group=${name} id=${route.query.client} onClose=${() => go(["groups", name], { tab: "members" })} />`}`;
}

/** A consumer in its own words. */
export function Client({ group, id, onClose }) {
  const [stacks, setStacks] = useState(false);
  const { data, error } = useApi("clients/one", { group, id, stacks: stacks ? "1" : "" });
  const columns = [
    ["topic", t("topic"), (row) => row.topic],
    ["queue", t("queue"), (row) => `${row.broker}/${row.queue}`],
    ["committed", t("group.committed"), (row) => number(row.committed), "right"],
    ["cached", t("client.cached"), (row) => number(row.cached), "right"],
    ["pull", t("client.last.pull"), (row) => moment(row.last_pull_ms)],
    ["consume", t("client.last.consume"), (row) => moment(row.last_consume_ms)],
  ];
  return html`<${Dialog} wide title=${id} onClose=${onClose}>
    <${Problem} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<h3>${t("client.queues")}</h3>
      ${data.queues.length ? html`<${Table} label=${t("client.queues")} columns=${columns} rows=${data.queues} />` : html`<p class="dim">${t("client.queues.none")}</p>`}
      <details><summary>${t("properties")} (${Object.keys(data.properties).length})</summary><dl class="properties">${Object.entries(data.properties).map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl></details>
      <div class="buttons left"><button onClick=${() => setStacks(true)}>${t("client.stacks")}</button></div>
      ${stacks && (data.stacks ? html`<pre class="body" tabindex="0">${data.stacks}</pre>` : html`<p class="dim">${t("client.stacks.none")}</p>`)}
      ${data.stacks_cut && html`<p class="dim">${t("list.cut")}</p>`}`}
  <//>`;
}

function Reset({ name, route, who }) {
  const { data: places } = useApi(`groups/${encodeURIComponent(name)}/lag`);
  const topics = [...new Set((places?.rows || []).map((row) => row.topic))];
  const [given, setGiven] = useState({ topic: "", to: "time", at_ms: Date.now() - 3600000, may_skip: false, place: "", offset: "" });
  const [preview, setPreview] = useState(null);
  const [error, setError] = useState(null);
  const [asking, setAsking] = useState(false);
  const topic = given.topic || route.query.topic || topics[0] || "";
  const queues = (places?.rows || []).filter((row) => row.topic === topic && row.queue !== undefined).map((row) => `${row.broker}/${row.queue}`);
  const place = given.place || queues[0] || "";
  const set = (change) => {
    setGiven({ ...given, ...change });
    setPreview(null);
  };
  const body = (rest) => {
    const at = place.lastIndexOf("/");
    const offset = given.to === "offset" ? { broker: place.slice(0, at), queue: Number(place.slice(at + 1)), offset: Number(given.offset || 0) } : {};
    return { topic, to: given.to, at_ms: given.to === "time" ? given.at_ms : null, may_skip: given.may_skip, ...offset, ...rest };
  };
  const look = async (event) => {
    event?.preventDefault();
    setError(null);
    try {
      setPreview(await post(`groups/${encodeURIComponent(name)}/reset`, body({ preview: true })));
    } catch (problem) {
      setError(problem);
    }
  };
  if (!who.may_change) return html`<${Empty}>${t("change.login")}<//>`;
  const columns = [
    ["queue", t("queue"), (row) => `${row.broker}/${row.queue}`],
    ["before", t("reset.now"), (row) => number(row.before), "right"],
    ["after", t("reset.then"), (row) => number(row.after), "right"],
    ["difference", t("reset.difference"), (row) => (row.difference === null ? "–" : `${row.difference > 0 ? "+" : ""}${number(row.difference)}`), "right"],
  ];
  const choice = (value, text, more) => html`<div class="choice"><label class="check"><input type="radio" name="to" checked=${given.to === value} onChange=${() => set({ to: value })} /> ${text}</label>${given.to === value && more}</div>`;
  return html`<${Card}><form onSubmit=${look}>
      <${Field} label=${t("topic")}><select value=${topic} onChange=${(event) => set({ topic: event.target.value, place: "" })}>${topics.map((each) => html`<option value=${each} selected=${each === topic}>${each}</option>`)}</select><//>
      <fieldset><legend>${t("reset.to")}</legend>
        ${choice("time", t("reset.time"), html`<input type="datetime-local" step="1" aria-label=${t("reset.time")} value=${toInput(given.at_ms)} onInput=${(event) => set({ at_ms: fromInput(event.target.value) || given.at_ms })} />`)}
        ${choice("oldest", t("reset.oldest"))}
        ${choice("newest", t("reset.newest"))}
        ${choice("offset", t("reset.offset"), html`<select aria-label=${t("queue")} value=${place} onChange=${(event) => set({ place: event.target.value })}>${queues.map((each) => html`<option value=${each} selected=${each === place}>${each}</option>`)}</select>
          <input type="number" min="0" class="short" aria-label=${t("offset")} value=${given.offset} onInput=${(event) => set({ offset: event.target.value })} />`)}
      </fieldset>
      <label class="check"><input type="checkbox" checked=${given.may_skip} onChange=${(event) => set({ may_skip: event.target.checked })} /> ${t("reset.may.skip")}</label>
      <div class="buttons left"><button class="primary" disabled=${!topic}>${t("reset.preview")}</button></div>
    </form><//>
    <${Problem} error=${error} />
    ${preview && html`<${Card} title=${t("reset.preview.title")}>
      <${Table} label=${t("reset.preview.title")} columns=${columns} rows=${preview.rows} />
      <p role="status">${t("reset.sum", { again: number(preview.again), skipped: number(preview.skipped) })}</p>
      <div class="buttons left"><button class="danger" onClick=${() => setAsking(true)}>${t("reset.do")}</button></div><//>`}
    ${asking && html`<${Confirm} title=${t("reset.do")} text=${t("reset.sum", { again: number(preview.again), skipped: number(preview.skipped) })} typed=${name} action=${t("reset.do")} onClose=${() => setAsking(false)}
      run=${async (confirm) => { await post(`groups/${encodeURIComponent(name)}/reset`, body({ preview: false, confirm, seen_skipped: preview.skipped })); say(t("reset.done", { name })); go(["groups", name], { tab: "lag" }); }} />`}`;
}

function GroupSettings({ data, who }) {
  const [deleting, setDeleting] = useState(false);
  const yes = (value) => (value ? html`<${Badge} kind="good">${t("yes")}<//>` : html`<${Badge}>${t("no")}<//>`);
  const columns = [
    ["broker", t("broker"), (row) => row.broker],
    ["consuming", t("group.consuming"), (row) => yes(row.consuming)],
    ["broadcasting", t("group.broadcasting"), (row) => yes(row.broadcasting)],
    ["ordered", t("group.ordered"), (row) => yes(row.ordered)],
    ["attempts", t("group.attempts"), (row) => row.max_attempts, "right"],
    ["retry", t("group.retry.queues"), (row) => row.retry_queues, "right"],
  ];
  const wants = [["topic", t("topic"), (row) => html`<a class="name" href=${topicLink(row.topic)}>${row.topic}</a>`], ["kind", t("kind"), (row) => row.kind], ["expression", t("group.expression"), (row) => html`<code class="wrap">${row.expression}</code>`]];
  return html`<${Table} label=${t("group.tab.settings")} columns=${columns} rows=${data.settings} />
    <h2>${t("group.subscriptions")}</h2>
    ${data.subscriptions.length ? html`<${Table} label=${t("group.subscriptions")} columns=${wants} rows=${data.subscriptions} />` : html`<p class="dim">${t("members.none")}</p>`}
    ${who.may_change && html`<div class="buttons left"><button class="danger" onClick=${() => setDeleting(true)}>${t("group.delete")}</button></div>`}
    ${deleting && html`<${Confirm} title=${t("group.delete")} text=${t("group.delete.text")} typed=${data.name} action=${t("delete")} onClose=${() => setDeleting(false)}
      run=${async (confirm) => { await post(`groups/${encodeURIComponent(data.name)}/delete`, { confirm }); say(t("group.deleted", { name: data.name })); go(["groups"]); }} />`}`;
}
