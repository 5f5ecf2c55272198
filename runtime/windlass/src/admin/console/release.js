// The dialog of `windlass release`: what finalizers of a reconciler hold, and how that is let go. Entry point: releases.
//
// It looks first, and changes nothing before that is asked for and confirmed. A call searches the fleet for some seconds, and its answer says
// where the next one goes on. The calls end with the search, with the dialog, or at a bound.

import { button, by, cell, clusterName, counted, element, number, tableOf } from "./elements.js";

// Objects and reasons that are shown, and clusters that are named with their numbers.
const SHOWN = 100;
const NAMED = 10;
// Calls of a search. Each takes a few seconds, so a search lasts an hour at most.
const CALLS = 600;
// Milliseconds for an answer: a process serves a connection no longer than that.
const DEADLINE = 30000;
const AGAIN = "not everything was looked at: look again, which goes on with those that are still held";

// What the answers say together, within bounds.
class Found {
  manager = "";
  count = 0;
  deleting = 0;
  released = 0;
  failed = 0;
  lists = 0;
  items = [];
  clusters = new Map();
  unread = [];
  moreUnread = 0;
  notAllowed = new Set();

  // Of objects that are let go, those are listed that could not be.
  add(reply, isRelease) {
    this.manager = reply.manager;
    for (const field of ["count", "deleting", "released", "failed", "lists", "moreUnread"]) this[field] += reply[field];
    for (const of of reply.items) {
      this.clusters.set(of.cluster, (this.clusters.get(of.cluster) ?? 0) + 1);
      if (this.items.length < SHOWN && (of.problem || !isRelease)) this.items.push(of);
    }
    for (const of of reply.unread) {
      if (this.unread.length < SHOWN) this.unread.push(of);
      else this.moreUnread += 1;
    }
    for (const kind of reply.notAllowed) this.notAllowed.add(kind);
  }
}

// ---- what is said, in the words of the command

function looked(found, name) {
  if (found.lists === 0 && found.unread.length === 0)
    return `nothing was looked at: no cluster has a kind that ${name} may write; windlass release --kind names others`;
  if (found.count === 0) return `no object holds a finalizer of ${found.manager}`;
  return `held by finalizers of ${found.manager}: ${counted(found.count, "object")}, ${number(found.deleting)} of them being deleted`;
}

function released(found) {
  if (found.count === 0) return `no object holds a finalizer of ${found.manager}`;
  return `${counted(found.released, "object")} let go${found.failed ? `, ${number(found.failed)} not: the table says why` : ""}`;
}

// An answer lists a thousand objects at most, so the numbers of many are not known.
function places(found) {
  const all = [...found.clusters].sort(([, a], [, b]) => b - a);
  const isWhole = all.reduce((sum, [, objects]) => sum + objects, 0) === found.count;
  const first = all.slice(0, NAMED).map(([cluster, objects]) => (isWhole ? `${clusterName(cluster)} ${number(objects)}` : clusterName(cluster)));
  const more = all.length > NAMED ? ` and ${number(all.length - NAMED)} more` : "";
  return `in ${isWhole ? "" : "at least "}${counted(all.length, "cluster")}: ${first.join(", ")}${more}`;
}

function unread(found) {
  const lines = found.unread.map((of) => {
    const kinds = of.kinds.join(", ") + (of.more ? ` and ${number(of.more)} more` : "");
    return `not read: ${clusterName(of.cluster)}${kinds ? `: ${kinds}` : ""}: ${of.why}`;
  });
  if (found.moreUnread) lines.push(`not read: ${counted(found.moreUnread, "more cluster or kind")}`);
  if (found.notAllowed.size)
    lines.push(`not looked at, because the credentials may not list them in every cluster: ${[...found.notAllowed].sort().join(", ")}`);
  return lines.length ? element("ul", { class: "warn" }, ...lines.map((line) => element("li", {}, line))) : null;
}

function objects(found, shown) {
  if (!found.items.length) return [];
  const rows = found.items.map((of) =>
    element("tr", {}, cell(clusterName(of.cluster), "key"), cell(of.kind), cell(of.namespace ? `${of.namespace}/${of.name}` : of.name, "key"),
      cell(of.finalizers.join(", ") + (of.alsoOf?.length ? `, also of ${of.alsoOf.join(", ")}` : ""), "text"), cell(of.deleting ? "yes" : "no"),
      cell(of.problem || "held", of.problem ? "text bad" : "")));
  const heads = [["Cluster"], ["Kind"], ["Object"], ["Finalizers"], ["Being deleted"], ["State"]];
  const more = shown > rows.length ? element("p", {}, `… and ${number(shown - rows.length)} more`) : null;
  return [element("div", { class: "wide" }, element("table", {}, ...tableOf(heads, rows, ""))), more];
}

// ---- the dialog

// What the page has for it: how it asks the API, opens its dialog and confirms, and the member that answers, if there are several.
export function releases({ ask, openDialog, confirmThen, member }) {
  // Calls until the search is over. True: it is.
  async function follow(asked, found, tell, isEnded, signal) {
    let next = {};
    for (let calls = 0; calls < CALLS && !isEnded(); calls += 1) {
      const reply = await ask("release", { ...asked, ...next }, { deadline: DEADLINE, signal });
      found.add(reply, asked.release);
      if (!reply.continue) return true;
      next = { continue: reply.continue };
      const objects = asked.release ? `${counted(found.released, "object")} let go` : `${counted(found.count, "object")} held`;
      tell(`${counted(found.lists, "list")} read, ${objects} until now …`);
    }
    return false;
  }

  // Lets objects go, and returns what is said at the end. What is not whole is an error. A call that is under way when the dialog closes is waited
  // for, so that what it lets go is counted.
  async function letGo(asked, tell, dialog) {
    const found = new Found();
    tell("letting go …");
    let isOver = false;
    try {
      isOver = await follow({ ...asked, release: true }, found, tell, () => dialog.aborted);
    } catch (error) {
      if (error.status && !found.manager) throw error;
      throw new Error(`${error.message}: ${counted(found.released, "object")} let go for certain, perhaps more, and ${AGAIN}`);
    }
    if (!dialog.aborted) by("detail-body").replaceChildren(...body(found, found.failed));
    if (!isOver) throw new Error(`${counted(found.released, "object")} let go, and ${AGAIN}`);
    if (found.failed || found.unread.length || found.moreUnread) throw new Error(released(found));
    return released(found);
  }

  function body(found, shown, ...more) {
    const only = member();
    const alone = only ? element("p", {}, `In the clusters that ${only} works on: windlass release asks every member.`) : null;
    return [...more, ...objects(found, shown), unread(found), alone].filter((one) => one);
  }

  function offers(found, asked) {
    const offer = (text, only) =>
      button(`Let ${text} go`, () => confirmThen(`Let ${text} of ${found.manager} go?`, (tell, dialog) => letGo({ ...asked, ...only }, tell, dialog), (said) => said,
        "The finalizers of this reconciler are removed, and no others. What it was to clean up stays."));
    const some = found.deleting > 0 && found.deleting < found.count;
    return element("p", { class: "actions" }, offer(counted(found.count, "object"), {}),
      some ? offer(`the ${number(found.deleting)} being deleted`, { deleting: true }) : null);
  }

  return async function look(reconciler, tenant) {
    const asked = { reconciler, ...(tenant ? { tenant } : {}) };
    const dialog = openDialog(`Finalizers of ${reconciler}`, element("progress", { "aria-label": "the search" }));
    const said = by("detail-said");
    const tell = (text) => {
      if (!dialog.aborted) said.textContent = text;
    };
    const found = new Found();
    tell("looking …");
    let failure = "";
    try {
      const isOver = await follow({ ...asked, release: false }, found, tell, () => dialog.aborted, dialog);
      if (!isOver) failure = `not everything was looked at after ${number(CALLS)} calls: windlass release looks at a cluster or a kind alone`;
    } catch (error) {
      failure = found.manager ? `${error.message}: not everything was looked at, look again` : error.message;
    }
    // Another dialog may be there by now.
    if (dialog.aborted) return;
    said.classList.toggle("bad", failure !== "");
    tell(failure);
    const shown = found.manager ? [element("p", {}, looked(found, reconciler)), found.count ? element("p", {}, places(found)) : null] : [];
    by("detail-body").replaceChildren(...body(found, found.count, ...shown, failure || !found.count ? null : offers(found, asked)));
  };
}
