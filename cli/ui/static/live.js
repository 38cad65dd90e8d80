// Keeps the page up to date: the server sends the parts that changed, as HTML that it has escaped.

const OFFLINE = "offline";

function replace({ id, digest, html }) {
  const old = document.getElementById(id);
  if (!old || old.dataset.digest === digest) return;
  const holder = document.createElement("template");
  holder.innerHTML = html.trim();
  const fresh = holder.content.firstElementChild;
  if (!fresh) return;
  keepState(old, fresh);
  old.replaceWith(fresh);
  restoreScroll(fresh);
}

// What the person has opened and where they have scrolled to stays.
function keepState(old, fresh) {
  const details = fresh.querySelector("details");
  if (details && old.querySelector("details")?.open) details.open = true;
  const scrolled = old.querySelector(".scroll");
  if (scrolled) fresh.scrolledTo = scrolled.scrollTop;
}

function restoreScroll(fresh) {
  const scrolled = fresh.querySelector?.(".scroll");
  if (scrolled && fresh.scrolledTo) scrolled.scrollTop = fresh.scrolledTo;
}

const wanted = new URLSearchParams({ name: document.body.dataset.filter });
let events;

function follow() {
  events = new EventSource(`/events?${wanted}`);
  events.onmessage = (event) => {
    document.body.classList.remove(OFFLINE);
    const { parts, state } = JSON.parse(event.data);
    parts.forEach(replace);
    document.title = `${document.body.dataset.environment}: ${state}`;
  };
  events.onerror = () => {
    document.body.classList.add(OFFLINE);
    document.title = `${document.body.dataset.environment}: slipway ui has ended`;
  };
}

// Browsers open six connections to a host: tabs that nobody looks at must not hold them.
function followWhileSeen() {
  events?.close();
  if (document.visibilityState === "visible") follow();
}

document.addEventListener("visibilitychange", followWhileSeen);
addEventListener("pagehide", () => events?.close());
followWhileSeen();
