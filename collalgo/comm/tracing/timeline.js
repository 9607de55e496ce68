// The timeline of a trace: a row for each rank, with zoom, keys and a selection.
"use strict";
{
  const canvas = document.querySelector("canvas.timeline"), pen = canvas.getContext("2d");
  const detail = document.getElementById("detail");
  const AXIS = 24, BAR = 15, GAP = 7, HIGHEST = 16000;
  const spans = pageData.spans.map(([level, name, track, begin, length, about]) =>
    ({ level, name: pageData.names[name], track, begin, end: begin + length, about }));
  const rows = pageData.tracks.map(name => ({ name, levels: [], spans: [], top: 0, bar: BAR }));
  for (const span of spans) {
    const row = rows[span.track];
    (row.levels[span.level] ??= []).push(span);
    row.spans.push(span);
  }
  const first = spans.reduce((a, s) => Math.min(a, s.begin), Infinity);
  const last = spans.reduce((a, s) => Math.max(a, s.end), -Infinity);
  const all = spans.length ? [first, Math.max(last, first + 1e-3)] : [0, 1];
  let view = [...all], chosen = null, dragged = false;
  const wanted = rows.reduce((sum, row) => sum + Math.max(row.levels.length, 1) * BAR + GAP, AXIS);
  const scale = Math.min(1, HIGHEST / wanted);
  let height = AXIS;
  for (const row of rows) {
    row.top = height;
    row.bar = BAR * scale;
    height += (Math.max(row.levels.length, 1) * BAR + GAP) * scale;
  }
  const hues = new Map();
  const hue = span => {
    const word = span.name.split(/[ (]/)[0];
    if (!hues.has(word)) hues.set(word, hues.size % 10);
    return hues.get(word);
  };
  spans.filter(s => s.about.collective).forEach(hue);  // calls have the first colours
  canvas.style.height = `${height}px`;

  const letters = rows.reduce((most, row) => Math.max(most, row.name.length), 0);
  const gutter = Math.min(170, Math.max(60, 7.2 * letters));
  let width = canvas.clientWidth;  // which is slow to ask for
  const x = time => gutter + (time - view[0]) / (view[1] - view[0]) * (width - gutter);
  const time = px => view[0] + (px - gutter) / (width - gutter) * (view[1] - view[0]);
  const y = span => rows[span.track].top + span.level * rows[span.track].bar;

  function words(us, step = us) {
    for (const [unit, length] of [["s", 1e6], ["ms", 1e3], ["us", 1]])
      if (Math.abs(us) >= length || unit === "us") {
        const digits = Math.max(0, Math.ceil(-Math.log10(Math.abs(step) / length || 1) + 0.001));
        return `${(us / length).toFixed(Math.min(digits, 6))} ${unit}`;
      }
  }
  const duration = us => us < 1 ? `${Math.round(us * 1000)} ns` : words(us, us / 1000);

  function ticks(colour) {
    const target = (view[1] - view[0]) / Math.max(2, width / 130);
    const power = 10 ** Math.floor(Math.log10(target));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= target);
    pen.textAlign = "center";
    const begin = Math.ceil((view[0] - all[0]) / step - 1e-9);
    for (let i = begin; i * step + all[0] <= view[1]; i += 1) {
      const t = i * step;
      pen.fillStyle = colour.rule;
      pen.fillRect(Math.round(x(t + all[0])), AXIS - 6, 1, height);
      pen.fillStyle = colour.faint;
      const label = t ? words(t, step) : "0", half = pen.measureText(label).width / 2 + 2;
      pen.fillText(label, Math.min(Math.max(x(t + all[0]), gutter + half), width - half), 12);
    }
  }

  function bars(colour) {
    for (const row of rows) row.levels.forEach((level, depth) => {
      let done = -1;
      for (const span of level) {
        if (span.end < view[0] || span.begin > view[1]) continue;
        const a = Math.max(x(span.begin), gutter), b = Math.min(x(span.end), width);
        if (b - a < 1 && Math.floor(a) === done) continue;  // the pixel is drawn already
        done = Math.floor(a);
        const top = row.top + depth * row.bar;
        pen.globalAlpha = span.about.collective ? 0.85 : 0.45;
        pen.fillStyle = colour.hues[hue(span)];
        pen.fillRect(a, top, Math.max(b - a - 0.5, 1), row.bar - 1);
        pen.globalAlpha = 1;
        if (b - a > 34 && row.bar > 9) {
          pen.fillStyle = span.about.collective ? colour.paper : colour.ink;
          pen.textAlign = "left";
          pen.save();
          pen.beginPath();
          pen.rect(a, top, b - a - 2, row.bar);
          pen.clip();
          pen.fillText(span.name, a + 3, top + row.bar - 4);
          pen.restore();
        }
      }
    });
  }

  function messages(colour) {
    const seen = pageData.arrows.filter(([, sent, , got]) => got >= view[0] && sent <= view[1]);
    if (seen.length > 2000) return seen.length;
    pen.strokeStyle = colour.ink;
    pen.globalAlpha = 0.35;
    pen.beginPath();
    for (const [from, sent, to, got] of seen) {
      const y1 = rows[from].top + rows[from].bar, y2 = rows[to].top + rows[to].bar;
      pen.moveTo(x(sent), y1);
      pen.lineTo(x(got), y2);
      pen.rect(x(got) - 1, y2 - 1, 2, 2);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    return 0;
  }

  function outline(colour) {
    if (!chosen) return;
    for (const span of alike(chosen)) {
      pen.strokeStyle = span === chosen ? colour.mark : colour.ink;
      pen.lineWidth = span === chosen ? 2.5 : 1.2;
      pen.strokeRect(x(span.begin), y(span), Math.max(x(span.end) - x(span.begin), 2), rows[span.track].bar - 1);
    }
    pen.lineWidth = 1;
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue(`--${name}`).trim();
    const colour = {
      ink: of("ink"), paper: of("paper"), faint: of("faint"), rule: of("rule"), mark: of("mark"),
      hues: [...Array(10).keys()].map(n => of(`c${n}`)),
    };
    width = canvas.clientWidth;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    ticks(colour);
    bars(colour);
    const hidden = messages(colour);
    outline(colour);
    pen.fillStyle = colour.paper;
    pen.fillRect(0, 0, gutter - 2, height);
    pen.fillStyle = colour.ink;
    pen.textAlign = "left";
    for (const row of rows) if (row.bar > 5) pen.fillText(row.name, 4, row.top + 11, gutter - 8);
    pen.fillStyle = colour.faint;
    if (hidden) pen.fillText(`${hidden} messages: zoom in to see them`, gutter + 4, height - 1, 300);
  }

  const alike = span => span.about.sequence === undefined ? [span]
    : spans.filter(other => other.about.sequence === span.about.sequence);

  function choose(span) {
    chosen = span;
    detail.replaceChildren();
    if (!span) return draw();
    const list = document.createElement("dl");
    list.className = "facts";
    const fact = (name, value) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    };
    fact(rows[span.track].name, span.name);
    fact("begins at", `${words(span.begin - all[0], 0.001)}, takes ${duration(span.end - span.begin)}`);
    const others = alike(span);
    if (others.length > 1) {
      const late = others.reduce((a, b) => a.begin >= b.begin ? a : b);
      const waits = Math.max(0, Math.min(late.begin, span.end) - span.begin);
      fact("waits", late === span ? `not: it is the last of ${others.length} ranks to enter`
        : `${duration(waits)} until ${rows[late.track].name} enters, the last of ${others.length}`);
    }
    const hidden = ["begun", "ended", "queued", "sequence"];
    for (const [name, value] of Object.entries(span.about))
      if (!hidden.includes(name)) fact(name, value);
    detail.append(list);
    if (span.end < view[0] || span.begin > view[1]) centre(span);
    draw();
  }

  function show(begin, end) {
    const length = Math.min(Math.max(end - begin, (all[1] - all[0]) * 1e-7, 1e-4), all[1] - all[0]);
    const from = Math.min(Math.max(begin, all[0]), all[1] - length);
    view = [from, from + length];
    draw();
  }
  const zoom = (factor, at = (view[0] + view[1]) / 2) =>
    show(at - (at - view[0]) / factor, at - (at - view[0]) / factor + (view[1] - view[0]) / factor);
  const pan = part => show(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
  const centre = span => pan(((span.begin + span.end) / 2 - (view[0] + view[1]) / 2) / (view[1] - view[0]));
  function along(step) {
    const list = chosen ? rows[chosen.track].spans : spans;
    if (list.length) choose(chosen ? list[Math.min(Math.max(list.indexOf(chosen) + step, 0), list.length - 1)] : list[0]);
  }
  function across(step) {
    if (!chosen) return along(1);
    const row = rows[Math.min(Math.max(chosen.track + step, 0), rows.length - 1)];
    const twin = alike(chosen).find(span => rows[span.track] === row);
    const near = row.spans.reduce((a, b) => !a || Math.abs(b.begin - chosen.begin) < Math.abs(a.begin - chosen.begin) ? b : a, null);
    if (twin || near) choose(twin || near);
  }
  const keys = {
    "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), "0": () => show(...all),
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), n: () => along(1), p: () => along(-1),
    ArrowUp: () => across(-1), ArrowDown: () => across(1), Escape: () => choose(null),
    Enter: () => chosen && show(chosen.begin - 0.1 * (chosen.end - chosen.begin), chosen.end + 0.1 * (chosen.end - chosen.begin)),
  };
  canvas.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("button[data-do]"))
    button.addEventListener("click", () => keys[button.dataset.do]());
  canvas.addEventListener("wheel", event => {
    if (document.activeElement !== canvas) return;  // the page scrolls until it is chosen
    if (event.shiftKey) pan(Math.sign(event.deltaY || event.deltaX) * 0.1);
    else zoom(event.deltaY < 0 ? 1.25 : 1 / 1.25, time(event.offsetX));
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("pointerdown", () => { dragged = false; });
  canvas.addEventListener("pointermove", event => {
    if (!(event.buttons & 1)) return;
    dragged ||= Math.abs(event.movementX) > 1;
    pan(-event.movementX / (width - gutter));
  });
  canvas.addEventListener("click", event => {
    canvas.focus();
    if (dragged) return;
    const t = time(event.offsetX), near = 3 * (view[1] - view[0]) / width;
    const hit = spans.filter(s => event.offsetY >= y(s) && event.offsetY < y(s) + rows[s.track].bar
      && s.begin - near <= t && t <= s.end + near);
    choose(hit.reduce((a, b) => !a || b.end - b.begin < a.end - a.begin ? b : a, null));
  });
  canvas.addEventListener("dblclick", () => keys.Enter());
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  detail.textContent = spans.length ? "Select a span to see what it is." : "The trace has no calls.";
  draw();
}
