// Sends an image by the API in place of the form, and goes on after a break from where the service has it.
"use strict";
(() => {
  const form = document.getElementById("upload");
  const bar = document.getElementById("upload-progress");
  const state = document.getElementById("upload-state");
  const button = form.querySelector("button");
  const waitsS = [1, 2, 5, 10, 15];

  const report = (text) => { state.textContent = text; };
  const later = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

  function ask(method, path, body, headers, onprogress) {
    return new Promise((answered, broken) => {
      const request = new XMLHttpRequest();
      request.open(method, path);
      request.setRequestHeader("X-CSRF-Token", form.elements.csrf.value);
      for (const [name, value] of Object.entries(headers || {})) request.setRequestHeader(name, value);
      if (onprogress) request.upload.onprogress = onprogress;
      request.onload = () => answered(request);
      request.onerror = request.onabort = request.ontimeout = () => broken(new Error("the connection broke"));
      request.send(body);
    });
  }

  function problem(answer) {
    try {
      const problem = JSON.parse(answer.responseText);
      return problem.detail + (problem.hint ? ". " + problem.hint : "");
    } catch (error) {
      return "the service answered " + answer.status;
    }
  }

  async function send(file) {
    const path = "/api/v1/images/" + encodeURIComponent(file.name);
    const about = { name: file.name, size_bytes: file.size, sha512: form.elements.sha512.value };
    const made = await ask("POST", "/api/v1/images", JSON.stringify(about), { "Content-Type": "application/json" });
    if (made.status >= 400) throw new Error(problem(made));
    let offset = Number(made.getResponseHeader("Upload-Offset"));
    const show = (sent) => {
      bar.hidden = false;
      bar.value = sent / file.size;
      report(Math.floor((100 * sent) / file.size) + " % sent");
    };
    for (let breaks = 0; ;) {
      const from = offset;
      try {
        const answer = await ask("PATCH", path, file.slice(from), {
          "Upload-Offset": String(from),
          "Content-Type": "application/octet-stream",
        }, (event) => show(from + event.loaded));
        if (answer.status < 300) return path;
        // 409: another client, or our own last attempt, is still sending; 408 and 5xx: in a moment.
        if (answer.status !== 409 && answer.status !== 408 && answer.status < 500) throw Object.assign(new Error(problem(answer)), { isFinal: true });
      } catch (error) {
        if (error.isFinal) throw error;
      }
      for (;;) {
        const wait = waitsS[Math.min(breaks++, waitsS.length - 1)];
        report("The connection broke; continuing in " + wait + " s");
        await later(wait);
        let answer;
        try {
          answer = await ask("HEAD", path);
        } catch (error) {
          continue;
        }
        if (answer.status === 200) {
          offset = Number(answer.getResponseHeader("Upload-Offset"));
          if (offset > from) breaks = 0;
          if (offset >= file.size) return path;
          break;
        }
        if (answer.status < 500) throw new Error("the service answered " + answer.status);
      }
    }
  }

  form.addEventListener("submit", (event) => {
    const file = form.elements.file.files[0];
    if (!file) return;
    event.preventDefault();
    button.disabled = true;
    report("Starting");
    send(file).then(
      () => { location.assign("/images/" + encodeURIComponent(file.name)); },
      (error) => { report(error.message); button.disabled = false; },
    );
  });
})();
