// Asks the API again and again, and shows what it says. Entry point: the last line.

import { age, button, by, bytes, cell, clusterName, counted, element, joined, kept, milliseconds, named, number, replace, table } from "./elements.js";
import { plot, squares } from "./plots.js";
import { releases } from "./release.js";

const TONES = { Ready: "good", Syncing: "warn", Connecting: "warn", Degraded: "bad", Unusable: "bad", Gone: "bad" };
// Rows of a table of clusters, and keys that are asked for.
const MOST = 100;
// Milliseconds between two looks, at least: a look that takes long is followed by a longer pause.
const PAUSE = 2000;
// Milliseconds for an answer: a forwarded port whose pod has gone may never give one.
const DEADLINE = 15000;
// Seconds of a pause.
const HOUR = 3600;
const TOKEN = "windlass-token";

let token = sessionStorage.getItem(TOKEN) ?? "";
let seen = null;
let under = () => -1;
// Ended by a log-out and by the next log-in, with every call of it.
let session = new AbortController();

// ---- the API

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, body, { deadline = DEADLINE, signal: more } = {}) {
  const headers = { "X-Windlass-Token": token };
  const signal = AbortSignal.any([session.signal, AbortSignal.timeout(deadline), ...(more ? [more] : [])]);
  const options = body ? { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } } : { headers };
  const answer = await fetch(`../api/v1/${path}`, { ...options, signal });
  const text = await answer.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    // A proxy answers in words of its own.
  }
  if (!answer.ok) throw new Refused(answer.status, value?.error ?? value?.message ?? `${answer.status} ${answer.statusText}`);
  if (!value) throw new Refused(answer.status, "what answers is no windlass, or its answer was cut off");
  return value;
}

const items = async (path) => (await ask(path)).items;

// ---- words and colours

// As `windlass get reconcilers` says it.
function stateOf(of) {
  if (of.loading) return [of.serves ? "Reloading" : "Loading", "warn"];
  if (!of.serves) return ["Stopped", "bad"];
  if (of.problem) return ["Stale", "warn"];
  if (of.paused) return ["Paused", "warn"];
  return of.rolledBack ? ["RolledBack", "warn"] : ["Serves", "good"];
}

// What the style makes of a tone, in light or dark.
function colourOf(tone) {
  const probe = element("span", { class: tone });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

// ---- what is shown

function showClusters() {
  const all = seen.clusters;
  const counts = new Map();
  for (const { state } of all) counts.set(state, (counts.get(state) ?? 0) + 1);
  const states = [...counts].sort(([a], [b]) => a.localeCompare(b));
  by("states").replaceChildren(...states.map(([state, count]) => element("li", { class: TONES[state] ?? "" }, element("b", {}, number(count)), state)));
  const colours = Object.fromEntries(["good", "warn", "bad", "soft"].map((tone) => [tone, colourOf(tone)]));
  under = squares(by("squares"), all.map(({ state }) => colours[TONES[state] ?? "soft"]));
  by("squares").setAttribute("aria-label", states.map(([state, count]) => `${count} ${state}`).join(", "));

  const filter = by("cluster-filter").value.trim().toLowerCase();
  const words = (of) => `${clusterName(of.name)} ${of.state} ${of.reason} ${of.paused}`.toLowerCase();
  const holds = (of) => (filter ? words(of).includes(filter) : of.state !== "Ready" || of.paused);
  const found = all.filter(holds);
  const of = filter ? `${number(found.length)} of ${number(all.length)}` : `${number(found.length)} not Ready or paused, of ${number(all.length)}`;
  by("cluster-count").textContent = found.length > MOST ? `${of}, the first ${MOST} are shown` : of;
  const { enabled } = seen.shards;
  const rows = found.slice(0, MOST).map((of) => {
    // The local cluster has no Provider that could have its pause, and what is unusable is no cluster.
    const acts = of.name && of.state !== "Unusable" ? [pauses("cluster", of.name, of.paused)] : [];
    return element("tr", {}, cell(clusterName(of.name), "key"), cell(of.state, TONES[of.state] ?? ""), cell(age(of.sinceSeconds), "number"),
      cell(joined(of.paused, of.reason), "text"),
      cell(of.nextAttemptSeconds === null || of.nextAttemptSeconds === undefined ? "" : `in ${age(of.nextAttemptSeconds)}`, "number"),
      ...(enabled ? [cell(of.owner || (of.state === "Unusable" ? "" : "none"), of.owner ? "" : "bad")] : []),
      cell(number(of.objects), "number"), cell(bytes(of.bytes), "number"), cell(of.server, "text"), element("td", { class: "actions" }, ...acts));
  });
  const heads = [["Cluster"], ["State"], ["Since", "number"], ["Reason"], ["Next try", "number"], ...(enabled ? [["Owner"]] : []),
    ["Objects", "number"], ["Cache", "number"], ["Server"], [""]];
  table("clusters", heads, rows, filter ? "No cluster has this in its name, state, reason or pause." : all.length ? "All clusters are Ready." : "There is no cluster.");
}

function showReconcilers() {
  const hours = new Map(seen.history.map((of) => [`${of.tenant}/${of.reconciler}`, of.minutes]));
  const rows = seen.reconcilers.map((of) => {
    const minutes = hours.get(`${of.tenant}/${of.name}`) ?? [];
    const [state, tone] = stateOf(of);
    const all = (field) => minutes.reduce((sum, minute) => sum + minute[field], 0);
    const [attempts, failed, seconds] = [all("attempts"), all("failed"), all("seconds")];
    const mean = attempts ? seconds / attempts : 0;
    // The last minute is not over: in a plot it would seem to fall.
    const over = minutes.length > 1 ? minutes.slice(0, -1) : minutes;
    const each = over.map((minute) => (minute.attempts ? minute.seconds / minute.attempts : 0));
    const problem = joined(of.paused, [of.problem, of.lastError, ...of.watchProblems].find((text) => text));
    const short = (digest) => digest.slice(0, 12);
    const back = of.rolledBack ? ["Undo", " of its rollback", { reconciler: of.name, undo: true }]
      : of.previous ? ["Roll back", ` from ${short(of.revision)} to ${short(of.previous)}`, { reconciler: of.name, to: of.previous }] : null;
    const buttons = [
      back && kept(button(back[0], () => confirmThen(`${back[0]} ${named(of)}${back[1]}?`, () => ask("rollback", back[2]))), `roll-${named(of)}`),
      pauses("reconciler", of.name, of.paused), kept(button("Finalizers", () => release(of.name)), `finalizers-${of.name}`)];
    return element("tr", {}, cell(named(of)), cell(state, tone), cell(number(of.clusters), "number"),
      element("td", {}, plot(over.map((minute) => minute.attempts), "", `${attempts} runs in the last hour`), number(attempts)),
      element("td", {}, plot(over.map((minute) => minute.failed), failed ? "bad" : "", `${failed} failed in the last hour`), number(failed)),
      element("td", {}, plot(each, "", `${milliseconds(mean)} a run in the last hour`), attempts ? milliseconds(mean) : ""),
      cell(number(of.ready + of.running), "number"), cell(number(of.backoff + of.terminal), of.backoff + of.terminal ? "number bad" : "number"),
      cell(short(of.revision), "digest"), cell(problem, "text"), element("td", { class: "actions" }, ...buttons.filter((one) => one)));
  });
  table("reconcilers", [["Reconciler"], ["State"], ["Clusters", "number"], ["Runs, last hour"], ["Failed"], ["Time of a run"], ["To do", "number"],
    ["Failing", "number"], ["Revision"], ["Problem"], [""]], rows, "There is no Reconciler.");
}

function showTenants() {
  const rows = seen.tenants.map((of) =>
    element("tr", {}, cell(joined(of.name, of.paused)), cell(number(of.reconcilers), "number"), cell(number(of.weight), "number"),
      cell(`${number(of.running)} of ${of.concurrency ?? "all"}`, "number"), cell(`${bytes(of.memoryUsed)} of ${bytes(of.memory)}`, of.memoryUsed > 0.9 * of.memory ? "number bad" : "number"),
      cell(of.cpu ?? "its share", "number"), cell(number(of.requestsInFlight), "number"), cell(number(of.attempts), "number"), cell(number(of.failed), "number"),
      cell(Object.entries(of.usage.limitHits).map(([limit, hits]) => `${limit} ${number(hits)}`).join(", "), "text"),
      element("td", { class: "actions" }, pauses("tenant", of.name, of.paused))));
  table("tenants", [["Tenant"], ["Reconcilers", "number"], ["Weight", "number"], ["Running", "number"], ["Memory", "number"], ["Processors", "number"],
    ["Calls under way", "number"], ["Runs", "number"], ["Failed", "number"], ["Limits that were hit"], [""]], rows, "There is no tenant.");
}

function showKeys() {
  const rows = seen.keys.map((of) => {
    const open = kept(button(of.key, () => openKey(of.key), "link"), `open-${of.key}-${of.reconciler}`);
    const run = () => act(() => ask("requeue", { key: of.key, reconciler: of.reconciler }), `${of.key} runs now.`);
    const again = kept(button("Requeue", run), `requeue-${of.key}-${of.reconciler}`);
    const next = of.runsInSeconds === null || of.runsInSeconds === undefined ? "at an event" : `in ${age(of.runsInSeconds)}`;
    return element("tr", {}, element("td", {}, open), cell(named({ tenant: of.tenant, name: of.reconciler })), cell(of.state, of.state === "paused" ? "warn" : "bad"),
      cell(number(of.attempts), "number"), cell(next, "number"), cell(of.blame), cell(of.lastError, "text"), element("td", { class: "actions" }, again));
  });
  by("key-count").textContent = seen.more ? `the first ${number(seen.keys.length)} are shown` : "";
  table("keys", [["Key"], ["Reconciler"], ["State"], ["Failures", "number"], ["Next run", "number"], ["Fault"], ["Error"], [""]], rows, "No key fails.");
}

function showProviders() {
  const rows = seen.providers.map((of) =>
    element("tr", {}, cell(of.name), cell(of.source), cell(number(of.found), "number"), cell(number(of.engaged), "number"), cell(number(of.refused), of.refused ? "number bad" : "number"),
      cell(of.listedSeconds === null || of.listedSeconds === undefined ? "not yet" : `${age(of.listedSeconds)} ago`, "number"),
      cell(of.problems.map((problem) => `${problem.subject}: ${problem.message}`).join("; "), of.problems.length ? "text bad" : "text")));
  table("providers", [["Provider"], ["Source"], ["Found", "number"], ["Engaged", "number"], ["Refused", "number"], ["Listed", "number"], ["Problems"]], rows, "There is no Provider.");
  by("problems").replaceChildren(...seen.configuration.problems.map((problem) => element("li", {}, problem)));
}

// ---- the dialog

// Aborted when the dialog closes or shows something else.
let shown = new AbortController();
// The button that opened it.
let opener = "";

// Returns the signal that what it shows now is over.
function openDialog(title, ...body) {
  shown.abort();
  shown = new AbortController();
  by("detail-title").textContent = title;
  by("detail-said").textContent = "";
  by("detail-said").classList.remove("bad");
  by("detail-body").replaceChildren(...body);
  if (by("detail").open) {
    // The button that was pressed is gone.
    by("detail").focus();
  } else {
    opener = document.activeElement?.dataset.focus ?? "";
    by("detail").showModal();
  }
  return shown.signal;
}

// The event comes later: the dialog may be open again, and the focus at another button, which is being pressed. The button may have been made anew
// meanwhile.
function closed() {
  if (by("detail").open) return;
  shown.abort();
  if (opener && document.activeElement === document.body) by("fleet").querySelector(`[data-focus="${CSS.escape(opener)}"]`)?.focus();
}

// ---- one key

// The key in the dialog, which each look asks about again.
let opened = "";
const isOpen = (title) => by("detail").open && by("detail-title").textContent === title;

async function openKey(key) {
  openDialog(key, "…");
  opened = key;
  await explain(key);
}

async function explain(key) {
  let body;
  try {
    const found = await items(`explain?key=${encodeURIComponent(key)}`);
    body = found.length ? found.map(explained) : ["No reconciler knows this key."];
  } catch (error) {
    body = [error.message];
  }
  // The person may look at another one by now.
  if (isOpen(key)) replace(by("detail-body"), ...body);
}

function explained(of) {
  const facts = [["Reconciler", named({ tenant: of.tenant, name: of.reconciler })], ["State", of.state], ["Why", of.why], ["Failures", of.attempts ? number(of.attempts) : ""],
    ["Next run", of.runsInSeconds ? `in ${age(of.runsInSeconds)}` : ""], ["Last run", of.lastResult && `${of.lastResult}, ${age(of.lastEndedSeconds)} ago`],
    ["Error", of.lastError], ["Fault", of.blame], ["Enqueued by", [of.cause, of.source].filter((text) => text).join(" of ")]];
  const list = facts.filter(([, text]) => text).flatMap(([title, text]) => [element("dt", {}, title), element("dd", {}, text)]);
  const key = { key: of.key, reconciler: of.reconciler };
  const tell = (title, said, path, more) => kept(button(title, () => act(() => ask(path, { ...key, ...more }), said)), `${path}-${of.reconciler}`);
  const actions = [tell("Requeue", "It runs now.", "requeue"), tell("Record", "Its next run is recorded: see windlass get recordings.", "record"),
    tell("Pause for an hour", "It is left alone.", "pause", { seconds: HOUR }), tell("Resume", "It is reconciled again.", "resume")];
  return element("div", {}, element("dl", {}, ...list), element("p", { class: "actions" }, ...actions));
}

// ---- what buttons do

// Does what a button says, and tells how it goes: in the dialog, as long as it shows what it shows now. `said` may depend on the answer.
async function act(work, said) {
  const mine = session.signal;
  const dialog = by("detail").open ? shown.signal : null;
  const tell = (text, isBad = false) => {
    if (mine.aborted) return;
    const place = dialog && !dialog.aborted ? by("detail-said") : by("said");
    place.textContent = text;
    place.classList.toggle("bad", isBad);
  };
  try {
    const answer = await work(tell, dialog);
    tell(typeof said === "function" ? said(answer) : said);
  } catch (error) {
    tell(error.message, true);
  }
  if (!mine.aborted) follow();
}

function confirmThen(question, work, said = "Done.", note = "") {
  const yes = button("Yes", () => {
    yes.disabled = true;
    act(work, said);
  });
  openDialog(question, ...(note ? [element("p", {}, note)] : []), yes);
}

// Pauses a reconciler, a tenant or a cluster for an hour, or ends its pause.
function pauses(kind, name, paused) {
  const [title, how, path, more] = paused ? ["Resume", "", "resume", {}] : ["Pause", " for an hour", "pause", { seconds: HOUR }];
  const work = () => ask(path, { [kind]: name, ...more });
  const made = button(title, () => confirmThen(`${title} the ${kind} ${name}${how}?`, work, (reply) => `${reply.subject} ${reply.state}.`));
  return kept(made, `pause-${kind}-${name}`);
}

const release = releases({ ask, openDialog, confirmThen, member: () => (seen?.shards.enabled ? seen.shards.member : "") });

// ---- the look

// One call after the other: whoever looks takes one connection at a time.
async function look() {
  const found = {};
  for (const name of ["clusters", "reconcilers", "history", "tenants", "providers"]) found[name] = await items(name);
  const keys = await ask(`keys?state=failing&limit=${MOST}`);
  Object.assign(found, { keys: keys.items, more: keys.continue !== undefined, configuration: await ask("configuration"), shards: await ask("shards") });
  // Processes have a leader or shards.
  found.election = found.shards.enabled ? { enabled: false } : await ask("election");
  seen = found;
}

function show() {
  for (const part of [showClusters, showKeys, showReconcilers, showTenants, showProviders]) part();
  const [text, isBad] = seen.shards.enabled ? sharing(seen.shards) : [leading(seen.election), false];
  by("leader").textContent = text;
  by("leader").classList.toggle("bad", isBad);
}

const leading = ({ enabled, leads, identity, holder }) => (enabled ? (leads ? `${identity} leads` : `${holder || "nobody"} leads, this process waits`) : "");

// The member that answers, its shards, and what no member works on.
function sharing(of) {
  const held = of.items.find((one) => one.name === of.member)?.shards ?? 0;
  const alive = of.items.filter((one) => one.state !== "Dead").length;
  const [shards, clusters] = [of.shardsWithoutOwner, of.clustersWithoutOwner];
  const lost = shards || clusters ? `, ${counted(shards, "shard")} and ${counted(clusters, "cluster")} without an owner` : "";
  return [joined(`${of.member} holds ${number(held)} of ${number(of.shards)} shards, ${counted(alive, "member")}${lost}`, of.problem), lost !== "" || of.problem !== ""];
}

let timer = 0;
let good = "";

async function follow() {
  clearTimeout(timer);
  const mine = session;
  const began = performance.now();
  try {
    await look();
    if (mine !== session) return;
    enter(true);
    show();
    if (isOpen(opened)) await explain(opened);
    if (mine !== session) return;
    good = new Date().toLocaleTimeString();
    by("pulse").textContent = `live, ${good}`;
    by("pulse").classList.remove("bad");
  } catch (error) {
    if (mine !== session) return;
    if (error.status === 401 || !seen) return logOut(error.message);
    by("pulse").textContent = `${error.message} (last answer ${good})`;
    by("pulse").classList.add("bad");
  }
  clearTimeout(timer);
  timer = setTimeout(() => document.hidden || follow(), Math.max(PAUSE, 10 * (performance.now() - began)));
}

function enter(isIn) {
  by("login").hidden = isIn;
  by("fleet").hidden = by("leave").hidden = !isIn;
}

// What was seen goes too.
function logOut(why) {
  clearTimeout(timer);
  session.abort();
  sessionStorage.removeItem(TOKEN);
  by("refusal").textContent = token ? why : "";
  token = "";
  seen = null;
  by("detail").close();
  for (const id of ["clusters", "keys", "reconcilers", "tenants", "providers", "states", "problems", "detail-body"]) by(id).replaceChildren();
  for (const id of ["pulse", "said", "leader", "detail-title"]) by(id).textContent = "";
  for (const input of by("fleet").querySelectorAll("input")) input.value = "";
  enter(false);
  by("token").focus();
}

function logIn(given) {
  session.abort();
  session = new AbortController();
  token = given.trim();
  sessionStorage.setItem(TOKEN, token);
  follow();
}

// `windlass console` prints an address with the token behind the #, which a browser sends to nobody. It does not stay in the address.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname);
  return given;
}

const again = () => seen && showClusters();

by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  logIn(by("token").value);
  by("token").value = "";
});
by("leave").addEventListener("click", () => logOut(""));
by("open-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (by("key").value.trim()) openKey(by("key").value.trim());
});
by("release-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = by("release-name").value.trim();
  if (name) release(name, by("release-tenant").value.trim());
});
by("detail").addEventListener("close", closed);
by("cluster-filter").addEventListener("input", again);
by("squares").addEventListener("click", (event) => {
  const cluster = seen?.clusters[under(event.offsetX, event.offsetY)];
  if (cluster) by("cluster-filter").value = clusterName(cluster.name);
  again();
});
window.addEventListener("resize", again);
window.addEventListener("hashchange", () => {
  const given = takeToken();
  if (given) logIn(given);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
// A tab that nobody sees asks nothing.
document.addEventListener("visibilitychange", () => document.hidden || (token && follow()));

const given = takeToken() ?? token;
if (given) logIn(given);
else logOut("");
