// The frame around the views: where one can go, who is here, what was said, and the keys.
import { html, render, useState, useEffect, useRef, t, api, post, go, link, readRoute, useRoute, setLanguage, firstLanguage, language, clock, say } from "./lib/core.js";
import { Icon, Dialog, Problem, Field, Loading } from "./lib/ui.js";
import { Overview } from "./views/overview.js";
import { Topics } from "./views/topics.js";
import { Topic } from "./views/topic.js";
import { Groups } from "./views/groups.js";
import { Group } from "./views/group.js";
import { DeadLetters } from "./views/dead_letters.js";
import { Waiting } from "./views/waiting.js";
import { Traces } from "./views/traces.js";
import { Clients } from "./views/clients.js";
import { Brokers } from "./views/brokers.js";
import { Pipelines } from "./views/pipelines.js";
import { Users } from "./views/users.js";
import { Settings } from "./views/settings.js";

const VIEWS = {
  overview: () => Overview,
  topics: (parts) => (parts.length > 1 ? Topic : Topics),
  groups: (parts) => (parts.length > 1 ? Group : Groups),
  dlq: () => DeadLetters,
  waiting: () => Waiting,
  traces: () => Traces,
  clients: () => Clients,
  brokers: () => Brokers,
  pipelines: () => Pipelines,
  users: () => Users,
  settings: () => Settings,
};
const KEYS = { o: "overview", t: "topics", g: "groups", d: "dlq", w: "waiting", r: "traces", c: "clients", b: "brokers", p: "pipelines", u: "users", s: "settings" };

function Said() {
  const [said, setSaid] = useState([]);
  useEffect(() => {
    const heard = ({ detail }) => {
      const one = { ...detail, id: Math.random() };
      setSaid((before) => [...before.slice(-2), one]);
      setTimeout(() => setSaid((before) => before.filter((each) => each !== one)), 6000);
    };
    addEventListener("said", heard);
    return () => removeEventListener("said", heard);
  }, []);
  return html`<div class="said" role="status" aria-live="polite">${said.map((each) => html`<p key=${each.id} class=${each.kind}>${each.text}</p>`)}</div>`;
}

/** Finds topics and groups by a part of their names, and messages by id. */
function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const [at, setAt] = useState(0);
  const timer = useRef(null);
  const look = (value) => {
    setText(value);
    clearTimeout(timer.current);
    if (!value) return setFound(null);
    timer.current = setTimeout(async () => {
      const [topics, groups] = await Promise.allSettled([api("topics", { q: value, limit: 8 }), api("groups", { q: value, limit: 8 })]);
      const rows = [
        ...(topics.value?.rows || []).map((row) => [t("nav.topics"), row.name, ["topics", row.name]]),
        ...(groups.value?.rows || []).map((row) => [t("nav.groups"), row.name, ["groups", row.name]]),
      ];
      if (/^[0-9A-F]{32,}$/i.test(value)) rows.push([t("nav.traces"), value, ["traces"], { id: value }]);
      setFound(rows);
      setAt(0);
    }, 150);
    return undefined;
  };
  const open = (row) => {
    if (!row) return;
    go(row[2], row[3]);
    look("");
    document.activeElement?.blur();
  };
  const key = (event) => {
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, (found || []).length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") open(found?.[at]);
    else if (event.key === "Escape") {
      look("");
      event.target.blur();
    } else return;
    event.preventDefault();
  };
  return html`<div class="search">
    <input id="search" type="search" role="combobox" aria-expanded=${found !== null} aria-controls="found" aria-autocomplete="list"
      aria-activedescendant=${found?.length ? `found-${at}` : undefined} autocomplete="off" spellcheck=${false}
      aria-label=${t("search")} placeholder=${`${t("search")}   /`} value=${text} onInput=${(event) => look(event.target.value)} onKeyDown=${key} />
    <ul id="found" role="listbox" aria-label=${t("search")} hidden=${found === null}>
      ${(found || []).map((row, index) => html`<li id=${`found-${index}`} role="option" aria-selected=${index === at} onMouseDown=${() => open(row)}>
        <span class="kind">${row[0]}</span> ${row[1]}</li>`)}
      ${found?.length === 0 && html`<li role="option" aria-selected="false" aria-disabled="true" class="dim">${t("search.none")}</li>`}
    </ul>
  </div>`;
}

function Login({ who, onDone }) {
  const { query } = useRoute();
  const [given, setGiven] = useState({ user: "", password: "", token: "" });
  const [error, setError] = useState(null);
  const users = who.login === "users";
  const enter = async (token) => {
    try {
      await post("login", users ? { user: given.user, password: given.password } : { token });
      setError(null);
      say(t("login.done"));
      onDone();
    } catch (problem) {
      setError(problem);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    enter(given.token);
  };
  useEffect(() => {
    if (!query.token) return;
    // A secret does not stay in the address.
    if (readRoute().query.token) history.replaceState(null, "", "#/login");
    if (!users) enter(query.token);
  }, [query.token]);
  const set = (name) => (event) => setGiven({ ...given, [name]: event.target.value });
  if (!who.login) return html`<div class="login"><h1>${t("login")}</h1><p>${t("login.none")}</p><code>rocketpipe console --allow-changes</code></div>`;
  return html`<form class="login card" onSubmit=${submit}>
    <h1>${t("login")}</h1>
    <p>${users ? t("login.users") : t("login.token")}</p>
    ${users
      ? html`<${Field} wide label=${t("login.user")}><input autocomplete="username" value=${given.user} onInput=${set("user")} required /><//>
        <${Field} wide label=${t("login.password")}><input type="password" autocomplete="current-password" value=${given.password} onInput=${set("password")} required /><//>`
      : html`<${Field} wide label=${t("login.token.label")}><input type="password" autocomplete="off" value=${given.token} onInput=${set("token")} required /><//>`}
    <${Problem} error=${error} />
    <div class="buttons">${!who.guarded && html`<button type="button" onClick=${() => go(["overview"])}>${t("cancel")}</button>`}
      <button class="primary">${t("login")}</button></div>
  </form>`;
}

function Help({ onClose }) {
  const rows = [["/", t("keys.search")], ["g t", t("nav.topics")], ["g g", t("nav.groups")], ["g d", t("nav.dlq")], ["g o", t("nav.overview")], ["g b", t("nav.brokers")],
    ["j  k", t("keys.rows")], ["Enter", t("keys.open")], ["Esc", t("keys.close")], ["p", t("keys.pause")], ["r", t("keys.refresh")], ["?", t("keys.help")]];
  return html`<${Dialog} title=${t("keys")} onClose=${onClose}><dl class="keys">${rows.map(([key, text]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl><//>`;
}

function useKeys(setHelp) {
  useEffect(() => {
    let before = "";
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest("input,textarea,select,dialog")) return;
      const key = event.key;
      if (before === "g" && KEYS[key]) {
        go([KEYS[key]]);
        before = "";
        event.preventDefault();
        return;
      }
      before = key === "g" ? "g" : "";
      if (key === "/") document.getElementById("search")?.focus();
      else if (key === "?") setHelp(true);
      else if (key === "r") dispatchEvent(new Event("refresh"));
      else if (key === "p") dispatchEvent(new Event("pause"));
      else if (key === "j" || key === "k") {
        const rows = [...document.querySelectorAll("tr[data-row]")];
        const now = rows.findIndex((row) => row.contains(document.activeElement));
        const row = rows[Math.max(0, Math.min(rows.length - 1, now + (key === "j" ? 1 : -1)))];
        (row?.querySelector("a,button,input") || row)?.focus();
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function App() {
  const route = useRoute();
  const [who, setWho] = useState(null);
  const [error, setError] = useState(null);
  const [asOf, setAsOf] = useState(null);
  const [help, setHelp] = useState(false);
  const [needsLogin, setNeedsLogin] = useState(false);
  const [, setTurn] = useState(0);
  const learn = () => api("console").then((found) => { setWho(found); setError(null); setNeedsLogin(found.guarded && !found.who); }, setError);
  useKeys(setHelp);
  useEffect(() => {
    learn();
    const told = ({ detail }) => setAsOf(detail);
    const stranger = () => learn();
    addEventListener("asof", told);
    addEventListener("needslogin", stranger);
    return () => {
      removeEventListener("asof", told);
      removeEventListener("needslogin", stranger);
    };
  }, []);
  const place = VIEWS[route.parts[0]] ? route.parts[0] : "overview";
  const isLogin = route.parts[0] === "login";
  useEffect(() => {
    // Effects run after the page is shown: whoever has gone elsewhere by then stays there.
    if (isLogin && who?.who && readRoute().parts[0] === "login") go(["overview"], {}, { replace: true });
  }, [isLogin, who]);
  const changeTheme = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("rocketpipe.theme", document.documentElement.dataset.theme);
    dispatchEvent(new Event("themechange"));
  };
  const changeLanguage = async () => {
    const next = language === "zh" ? "en" : "zh";
    localStorage.setItem("rocketpipe.language", next);
    await setLanguage(next);
    setTurn((before) => before + 1);
    dispatchEvent(new Event("refresh"));
  };
  const leave = async () => {
    await post("logout", {});
    await learn();
    say(t("logout.done"));
  };
  const View = VIEWS[place](route.parts);
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>${t("skip")}</a>
    <nav class="rail" aria-label=${t("nav")}>
      <a class="brand" href=${link(["overview"])}><span class="logo" aria-hidden="true"></span>RocketPipe</a>
      <ul>${Object.keys(VIEWS).map((name) => html`<li><a href=${link([name])} aria-current=${name === place && !isLogin ? "page" : undefined}><${Icon} name=${name} /><span>${t(`nav.${name}`)}</span></a></li>`)}</ul>
      <p class="foot">${who && `${who.version}`}</p>
    </nav>
    <div class="page">
      <div class="topbar" role="banner">
        <${Search} />
        <div class="tools">
          <button class="ghost" onClick=${() => dispatchEvent(new Event("refresh"))} title=${t("keys.refresh")}>${asOf ? t("as.of", { time: clock(asOf) }) : t("keys.refresh")} <span aria-hidden="true">⟳</span></button>
          <button class="ghost" onClick=${changeLanguage} lang=${language === "zh" ? "en" : "zh-CN"}>${language === "zh" ? "English" : "中文"}</button>
          <button class="ghost" onClick=${changeTheme} aria-label=${t("theme")} title=${t("theme")}>◐</button>
          <button class="ghost" onClick=${() => setHelp(true)} aria-label=${t("keys")} title=${t("keys")}>?</button>
          ${who && (who.who
            ? html`<span class="who" title=${t("may.change")}>${who.who}</span><button class="small" onClick=${leave}>${t("logout")}</button>`
            : html`<span class="badge plain">${t("read.only")}</span><a class="button small" href=${link(["login"])}>${t("login")}</a>`)}
        </div>
      </div>
      <main id="main" tabindex="-1">
        <${Problem} error=${error} retry=${learn} />
        ${!who && !error && html`<${Loading} />`}
        ${who && (isLogin || needsLogin
          ? html`<${Login} who=${who} onDone=${learn} />`
          : html`<${View} key=${`${place}/${language}/${who.who}`} route=${route} who=${who} />`)}
      </main>
    </div>
    <${Said} />
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  </div>`;
}

await setLanguage(firstLanguage());
render(html`<${App} />`, document.getElementById("app"));
