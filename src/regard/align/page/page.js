(() => {
  const { dark, colour } = regard, data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id), [NUMBER, SOURCE, TARGET, HARD, SOFT, GOLD] = [0, 1, 2, 3, 4, 5];
  const say = by("say"), box = by("pairs"), where = by("where");
  const hidden = new Set();                      // models that are not shown
  let weights = data.weights.length ? 0 : -1;    // whose weights are the shade
  let goldShown = data.gold, list = [], start = 0, figures = [];

  // --- which pairs -------------------------------------------------------------------------------------------------
  const fold = (word) => word.normalize("NFC").toLowerCase();
  const linked = (flat) => { const set = new Set(); for (let k = 0; k < flat.length; k += 2) set.add(flat[k] + "-" + flat[k + 1]); return set; };
  const same = (a, b) => a.size === b.size && [...a].every((x) => b.has(x));
  function found(word) {
    const wanted = fold(by("find").value.trim());
    return wanted !== "" && (by("whole").checked ? fold(word) === wanted : fold(word).includes(wanted));
  }
  function differs(pair) {
    const sets = data.models.map((_, m) => m).filter((m) => !hidden.has(m)).map((m) => linked(pair[HARD][m]));
    if (goldShown && pair[GOLD]) {                // against gold: nothing sure is missing, nothing is impossible
      const sure = linked(pair[GOLD][0]), all = new Set([...sure, ...linked(pair[GOLD][1])]);
      return sets.some((set) => [...sure].some((x) => !set.has(x)) || [...set].some((x) => !all.has(x)));
    }
    return sets.some((set) => !same(set, sets[0]));
  }
  function choose() {
    const searching = by("find").value.trim() !== "", differing = by("differ").checked;
    list = [];
    data.pairs.forEach((pair, k) => {
      if (searching && !pair[SOURCE].some(found) && !pair[TARGET].some(found)) return;
      if (differing && !differs(pair)) return;
      list.push(k);
    });
    start = 0;
    page();
  }

  // --- marks -------------------------------------------------------------------------------------------------------
  const inks = { light: ["#0b6b8f", "#8a2be2", "#0a7d33", "#a11a5b", "#5a5a00", "#1c1c28"], dark: ["#6cc0e0", "#d3a6ff", "#7fe3a0", "#ff9ecb", "#e6e07a", "#ffffff"] };
  const shapes = [
    (p, r) => p.arc(0, 0, 0.42 * r, 0, 7),
    (p, r) => { p.moveTo(-r, -r); p.lineTo(r, r); p.moveTo(r, -r); p.lineTo(-r, r); },
    (p, r) => p.arc(0, 0, r, 0, 7),
    (p, r) => { p.moveTo(0, -1.2 * r); p.lineTo(1.2 * r, 0); p.lineTo(0, 1.2 * r); p.lineTo(-1.2 * r, 0); p.closePath(); },
    (p, r) => { p.moveTo(0, -1.2 * r); p.lineTo(0, 1.2 * r); p.moveTo(-1.2 * r, 0); p.lineTo(1.2 * r, 0); },
    (p, r) => { p.moveTo(0, -r); p.lineTo(r, r); p.lineTo(-r, r); p.closePath(); },
  ];
  // A mark has a rim of the paper's colour, so that it shows on any shade and beside the others.
  function mark(pen, m, x, y, cell) {
    const n = m % shapes.length, scheme = dark.matches ? "dark" : "light", r = 0.3 * cell, wide = Math.max(1, cell / 11);
    pen.save(); pen.translate(x, y); pen.lineCap = pen.lineJoin = "round";
    pen.beginPath(); shapes[n](pen, r);
    pen.strokeStyle = dark.matches ? "#15151d" : "#fff"; pen.lineWidth = 2.4 * wide; pen.stroke();
    pen.strokeStyle = pen.fillStyle = inks[scheme][(n + Math.floor(m / shapes.length)) % shapes.length];
    pen.lineWidth = wide;
    if (n === 0) pen.fill();
    pen.stroke(); pen.restore();
  }
  function outline(pen, i, j, cell, sure) {
    pen.save(); pen.strokeStyle = dark.matches ? "#e8e8f0" : "#1c1c28"; pen.lineWidth = cell > 9 ? 2 : 1;
    if (!sure) pen.setLineDash([3, 3]);
    pen.strokeRect(i * cell + 1.5, j * cell + 1.5, cell - 3, cell - 3); pen.restore();
  }

  // --- one pair ----------------------------------------------------------------------------------------------------
  class Figure {
    constructor(pair) {
      this.pair = pair; this.l = pair[SOURCE].length; this.m = pair[TARGET].length; this.at = null;
      this.cell = Math.max(2, Math.min(22, Math.floor(2200 / Math.max(this.l, this.m, 1))));
      this.section = document.createElement("section"); this.section.className = "pair";
      const head = document.createElement("h2"); head.textContent = `Pair ${(pair[NUMBER] + 1).toLocaleString("en")}`;
      this.counts = document.createElement("p"); this.counts.className = "soft";
      this.spans = [SOURCE, TARGET].map((side) => this.line(side));
      const frame = document.createElement("div"); frame.className = "frame";
      this.canvas = document.createElement("canvas"); this.canvas.tabIndex = 0; this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-label", `Matrix of pair ${pair[NUMBER] + 1}: ${this.l} source words across, ${this.m} target words down. Arrow keys move.`);
      frame.append(this.canvas);
      this.section.append(head, this.counts, ...this.spans.map((s) => s.line), frame);
      if (!this.l || !this.m) { frame.remove(); this.counts.textContent = "No words: a side is empty, or the pair was left out."; return; }
      this.canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
      this.canvas.addEventListener("pointerleave", () => this.point(null));
      this.canvas.addEventListener("focus", () => this.point(this.at || { i: 0, j: 0 }));
      this.canvas.addEventListener("keydown", (event) => this.key(event));
    }
    line(side) {
      const line = document.createElement("p"), words = this.pair[side];
      line.className = "words"; line.dir = "auto";
      const spans = words.map((word, k) => {
        const span = document.createElement("span"); span.textContent = word; span.dir = "auto";
        if (found(word)) span.className = "found";
        span.addEventListener("pointerenter", () => this.point(side === SOURCE ? { i: k } : { j: k }));
        span.addEventListener("pointerleave", () => this.point(null));
        return span;
      });
      spans.forEach((span, k) => line.append(...(k ? [" ", span] : [span])));
      return { line, spans };
    }
    under(event) {
      const r = this.canvas.getBoundingClientRect(), i = Math.floor((event.clientX - r.left - this.left) / this.cell);
      const j = Math.floor((event.clientY - r.top - this.top) / this.cell);
      return i >= 0 && j >= 0 && i < this.l && j < this.m ? { i, j } : null;
    }
    key(event) {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault(); event.stopPropagation();
      const from = this.at && this.at.i !== undefined && this.at.j !== undefined ? this.at : { i: 0, j: 0 };
      const clip = (x, n) => Math.min(n - 1, Math.max(0, x));
      this.point({ i: clip(from.i + step[0], this.l), j: clip(from.j + step[1], this.m) });
    }
    point(at) {
      if (!this.at && !at) return;
      this.at = at; this.draw(); this.tell();
    }
    weight(i, j) {
      const flat = weights < 0 ? [] : this.pair[SOFT][weights];
      for (let k = 0; k < flat.length; k += 3) if (flat[k] === i && flat[k + 1] === j) return flat[k + 2] / 1000;
      return 0;
    }
    // Words that are linked to the one pointed at, by any model that is shown.
    partners(at) {
      const to = [new Set(), new Set()];
      this.pair[HARD].forEach((flat, m) => {
        if (hidden.has(m)) return;
        for (let k = 0; k < flat.length; k += 2) {
          if (flat[k] === at.i) to[1].add(flat[k + 1]);
          if (flat[k + 1] === at.j) to[0].add(flat[k]);
        }
      });
      return to;
    }
    tell() {
      const at = this.at || {}, to = this.partners(at);
      this.spans.forEach((side, s) => side.spans.forEach((span, k) => {
        span.classList.toggle("at", k === (s ? at.j : at.i));
        span.classList.toggle("to", to[s].has(k));
      }));
      say.replaceChildren();
      if (!this.at) { say.textContent = "\u00a0"; return; }
      const name = (side, k) => { const b = document.createElement("bdi"); b.textContent = `“${this.pair[side][k]}”`; return [b, ` (${k})`]; };
      const parts = [];
      if (at.i !== undefined) parts.push(...name(SOURCE, at.i));
      if (at.i !== undefined && at.j !== undefined) parts.push(" – ");
      if (at.j !== undefined) parts.push(...name(TARGET, at.j));
      if (at.i !== undefined && at.j !== undefined) {
        if (weights >= 0) parts.push(`: ${data.weights[weights]} ${this.weight(at.i, at.j).toFixed(3)}`);
        const has = (flat) => linked(flat).has(at.i + "-" + at.j);
        const models = data.models.filter((_, m) => !hidden.has(m) && has(this.pair[HARD][m]));
        parts.push(models.length ? ` · linked by ${models.join(", ")}` : " · not linked");
        if (this.pair[GOLD]) parts.push(has(this.pair[GOLD][0]) ? " · sure in gold" : has(this.pair[GOLD][1]) ? " · possible in gold" : " · not in gold");
      } else parts.push(to[0].size + to[1].size ? " is linked to " : " has no link");
      const side = at.i !== undefined ? TARGET : SOURCE;
      if (at.i === undefined || at.j === undefined)
        [...to[side === TARGET ? 1 : 0]].sort((a, b) => a - b).forEach((k, n) => parts.push(...(n ? [", "] : []), ...name(side, k)));
      say.append(...parts);
    }
    count() {
      const gold = this.pair[GOLD];
      const sure = gold && linked(gold[0]), all = gold && new Set([...sure, ...linked(gold[1])]);
      this.counts.textContent = data.models.map((name, m) => {
        if (hidden.has(m)) return "";
        const set = linked(this.pair[HARD][m]);
        if (!gold) return `${name}: ${set.size} links`;
        const wrong = [...set].filter((x) => !all.has(x)).length, missed = [...sure].filter((x) => !set.has(x)).length;
        return `${name}: ${set.size} links, ${wrong} wrong, ${missed} missed`;
      }).filter(Boolean).join(" · ");
    }
    draw() {
      if (!this.l || !this.m) return;
      const { cell, l, m, pair } = this, named = cell >= 11, style = getComputedStyle(document.body);
      const font = `${Math.min(13, cell)}px system-ui, sans-serif`, pen = this.canvas.getContext("2d");
      pen.font = font;
      const widest = (words) => Math.min(150, Math.max(24, ...words.map((word) => pen.measureText(word).width + 8)));
      this.left = named ? Math.ceil(widest(pair[TARGET])) : 4; this.top = named ? Math.ceil(widest(pair[SOURCE])) : 4;
      const w = this.left + l * cell + 4, h = this.top + m * cell + 4;
      const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(1.6e7 / (w * h)));
      this.canvas.width = w * ratio; this.canvas.height = h * ratio;
      this.canvas.style.width = w + "px"; this.canvas.style.height = h + "px";
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const ink = style.color, line = style.getPropertyValue("--line"), point = style.getPropertyValue("--mark");
      const at = this.at || {};
      pen.font = font; pen.textBaseline = "middle";
      if (named) {
        const put = (word, on, room) => { pen.fillStyle = on ? point : ink; pen.fillText(word, 0, 0, room); };
        pair[TARGET].forEach((word, j) => {
          pen.save(); pen.translate(this.left - 5, this.top + (j + 0.5) * cell); pen.textAlign = "right"; put(word, at.j === j, this.left - 8); pen.restore();
        });
        pair[SOURCE].forEach((word, i) => {
          pen.save(); pen.translate(this.left + (i + 0.5) * cell, this.top - 5); pen.rotate(-Math.PI / 2); pen.textAlign = "left"; put(word, at.i === i, this.top - 8); pen.restore();
        });
      }
      pen.translate(this.left, this.top);
      const least = Number(by("least").value) || 0;
      if (weights >= 0) {
        const flat = pair[SOFT][weights];
        for (let k = 0; k < flat.length; k += 3) {
          if (flat[k + 2] / 1000 < least) continue;
          pen.fillStyle = `rgb(${colour(flat[k + 2] / 1000).join(",")})`; pen.fillRect(flat[k] * cell, flat[k + 1] * cell, cell, cell);
        }
      }
      pen.strokeStyle = line; pen.lineWidth = 1; pen.beginPath();
      const step = cell >= 7 ? 1 : 10;
      for (let i = 0; i <= l; i += step) { pen.moveTo(i * cell + 0.5, 0); pen.lineTo(i * cell + 0.5, m * cell); }
      for (let j = 0; j <= m; j += step) { pen.moveTo(0, j * cell + 0.5); pen.lineTo(l * cell, j * cell + 0.5); }
      pen.stroke();
      pen.globalAlpha = 0.18; pen.fillStyle = point;
      if (at.i !== undefined) pen.fillRect(at.i * cell, 0, cell, m * cell);
      if (at.j !== undefined) pen.fillRect(0, at.j * cell, l * cell, cell);
      pen.globalAlpha = 1;
      if (goldShown && pair[GOLD]) pair[GOLD].forEach((flat, n) => { for (let k = 0; k < flat.length; k += 2) outline(pen, flat[k], flat[k + 1], cell, n === 0); });
      pair[HARD].forEach((flat, n) => {
        if (!hidden.has(n)) for (let k = 0; k < flat.length; k += 2) mark(pen, n, (flat[k] + 0.5) * cell, (flat[k + 1] + 0.5) * cell, cell);
      });
    }
    refresh() { this.draw(); this.count(); }
  }

  // --- pages -------------------------------------------------------------------------------------------------------
  const many = () => Number(by("many").value);
  function page() {
    start = Math.max(0, Math.min(start, list.length - 1));
    figures = list.slice(start, start + many()).map((k) => new Figure(data.pairs[k]));
    box.replaceChildren(...figures.map((figure) => figure.section));
    figures.forEach((figure) => { if (figure.l && figure.m) figure.refresh(); });
    say.textContent = "\u00a0";
    where.textContent = list.length
      ? `${start + 1} to ${Math.min(list.length, start + many())} of ${list.length.toLocaleString("en")}${list.length < data.pairs.length ? " that match" : ""}`
      : "No pair matches.";
    if (list.length) by("number").value = data.pairs[list[start]][NUMBER] + 1;
    by("before").disabled = start === 0; by("after").disabled = start + many() >= list.length;
  }
  function turn(pages) {
    const to = start + pages * many();
    if (to >= list.length || (to < 0 && start === 0)) return;
    start = to; page();
  }
  function reach(number) {                       // the pair of that number, or the next one that is shown
    let best = -1;
    list.forEach((k, n) => {
      const its = data.pairs[k][NUMBER] + 1;
      if (its >= number && (best < 0 || its < data.pairs[list[best]][NUMBER] + 1)) best = n;
    });
    start = best < 0 ? list.length - 1 : best; page();
  }
  const redraw = () => figures.forEach((figure) => { if (figure.l && figure.m) figure.refresh(); });

  // --- legend ------------------------------------------------------------------------------------------------------
  function entry(kind, name, checked, act, paint) {
    const label = document.createElement("label"), input = document.createElement("input"), canvas = document.createElement("canvas");
    input.type = kind; input.checked = checked; if (kind === "radio") input.name = "weights";
    input.addEventListener("change", () => act(input.checked));
    canvas.width = canvas.height = 40; canvas.style.width = canvas.style.height = "20px"; canvas.setAttribute("aria-hidden", "true");
    const again = () => { const pen = canvas.getContext("2d"); pen.setTransform(2, 0, 0, 2, 0, 0); pen.clearRect(0, 0, 20, 20); paint(pen); };
    again(); dark.addEventListener("change", again);
    const text = document.createElement("bdi"); text.textContent = name;
    label.append(input, canvas, text);
    by("legend").append(label);
    return input;
  }
  const boxes = data.models.map((name, m) => entry("checkbox", name, true, (on) => {
    if (on) hidden.delete(m); else hidden.add(m);
    if (by("differ").checked) choose(); else redraw();
  }, (pen) => mark(pen, m, 10, 10, 20)));
  if (data.gold) {
    entry("checkbox", "gold, sure ─ possible ┄", true, (on) => { goldShown = on; if (by("differ").checked) choose(); else redraw(); },
      (pen) => outline(pen, 0, 0, 20, true));
  }
  if (data.weights.length) {
    [...data.weights, "no weights"].forEach((name, k) => entry("radio", name, k === 0, () => { weights = k < data.weights.length ? k : -1; redraw(); },
      (pen) => { for (let x = 0; x < 20; x++) { pen.fillStyle = k < data.weights.length ? `rgb(${colour((x / 19) ** 2).join(",")})` : "transparent"; pen.fillRect(x, 4, 1, 12); } }));
  }

  by("before").addEventListener("click", () => turn(-1));
  by("after").addEventListener("click", () => turn(1));
  by("number").addEventListener("change", () => reach(Number(by("number").value)));
  by("many").addEventListener("change", page);
  by("least").addEventListener("input", redraw);
  let waiting = 0;
  by("find").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(choose, 150); });
  for (const id of ["whole", "differ"]) by(id).addEventListener("change", choose);
  dark.addEventListener("change", redraw);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inside = event.target instanceof HTMLElement && event.target.closest("input,select");
    if (event.key === "Escape" && inside) { event.target.blur(); return; }
    if (inside) return;
    const m = Number(event.key) - 1;
    if (event.key === "ArrowLeft" || event.key === "p") turn(-1);
    else if (event.key === "ArrowRight" || event.key === "n") turn(1);
    else if (event.key === "Home") { start = 0; page(); }
    else if (event.key === "End") { start = list.length - many(); page(); }
    else if (event.key === "/") by("find").focus();
    else if (boxes[m]) boxes[m].click();
    else return;
    event.preventDefault();
  });
  const asked = /^#pair=(\d+)$/.exec(location.hash);
  choose();
  if (asked) reach(Number(asked[1]));
})();
