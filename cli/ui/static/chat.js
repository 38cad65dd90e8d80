// Sends the form as it is and shows the answer as it arrives.

const form = document.getElementById("ask");
const answer = document.getElementById("answer");
const speed = document.getElementById("speed");
const stop = document.getElementById("stop");

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part.replace(/^data: /, ""));
  }
}

function show(event) {
  if (event.text) {
    answer.append(event.text);
    answer.scrollTop = answer.scrollHeight;
  }
  if (event.figures) speed.textContent = event.figures;
  if (event.failure) speed.textContent = event.failure;
}

async function ask(signal) {
  const response = await fetch(form.action, {
    method: "POST",
    body: new URLSearchParams(new FormData(form)),
    headers: { Accept: "text/event-stream" },
    signal,
  });
  if (!response.ok) {
    speed.textContent = (await response.text()).trim();
    return;
  }
  for await (const event of eventsOf(response)) show(event);
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const control = new AbortController();
  const button = event.submitter ?? form.querySelector("button");
  stop.onclick = () => control.abort();
  answer.replaceChildren();
  answer.hidden = false;
  speed.textContent = "";
  answer.setAttribute("aria-busy", "true");
  button.disabled = true;
  stop.hidden = false;
  try {
    await ask(control.signal);
  } catch (error) {
    speed.textContent = control.signal.aborted ? "Stopped." : `No answer: ${error.message}`;
  } finally {
    answer.setAttribute("aria-busy", "false");
    button.disabled = false;
    stop.hidden = true;
  }
});

document.getElementById("prompt")?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
