(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("map"), paint = canvas.getContext("2d");
  const say = document.getElementById("say"), list = document.getElementById("row"), note = document.getElementById("cells");
  const pick = document.getElementById("head"), what = document.getElementById("what"), first = document.getElementById("first");
  const fit = document.getElementById("fit"), most = document.getElementById("most");
  const { dark, colour, number } = regard;
  const LEFT = 96, TOP = 96, SIDE = 640;
  const maps = new Map();                       // whole maps by head, decoded when first shown
  let head = -1, whole = null, fine = null;     // fine: a closer map of a part, where a server draws them
  let view = null, at = null, asked = 0, timer = 0, drag = null;

  // What a map holds: four planes of 12-bit numbers on a logarithmic scale, 0 and then 1e-9 to 1, packed by deflate.
  async function opened(text, about) {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const codes = new Uint16Array(await new Response(stream).arrayBuffer());
    const size = about.rows * about.columns, table = new Float32Array(4096);
    for (let i = 1; i < 4096; i++) table[i] = Math.pow(1e-9, 1 - (i - 1) / 4094);
    const planes = [0, 1, 2, 3].map((p) => Float32Array.from(codes.subarray(p * size, (p + 1) * size), (c) => table[c]));
    return { ...about, planes };
  }
  async function fetched(index, r, cells) {
    const where = `map?head=${index}&top=${r.top}&bottom=${r.bottom}&left=${r.left}&right=${r.right}&cells=${cells}`;
    const answer = await fetch(where);
    if (!answer.ok) throw new Error(await answer.text());
    const found = await answer.json();
    return opened(found.planes, found);
  }
  async function wholeMap(index) {
    if (!maps.has(index)) {
      const held = document.getElementById("map-" + index), about = data.maps[index];
      if (held) maps.set(index, await opened(held.textContent, about));
      else if (data.served) maps.set(index, await fetched(index, data.regions[index], 256));
      else return null;
    }
    return maps.get(index);
  }

  async function choose(index) {
    index = Number(index);
    pick.value = String(index);
    document.querySelectorAll("tr[data-head]").forEach((row) =>
      row.setAttribute("aria-selected", String(Number(row.dataset.head) === index)));
    say.textContent = "Drawing…";
    let made = null;
    try { made = await wholeMap(index); } catch (error) { say.textContent = "The map cannot be drawn: " + error.message; return; }
    if (Number(pick.value) !== index) return;   // another was chosen meanwhile
    const same = whole && made && whole.bottom === made.bottom && whole.right === made.right;
    head = index; whole = made; fine = null;
    if (!made) { say.textContent = "This page holds no map of this head."; paint.clearRect(0, 0, canvas.width, canvas.height); return; }
    if (!same) { view = { top: 0, bottom: made.bottom, left: 0, right: made.right }; at = { q: 0, k: 0 }; }
    show(); closer();
  }

  const shown = () => fine || whole;
  const plane = (m) => m.planes[(first.checked ? 2 : 0) + (what.value === "largest" ? 1 : 0)];

  // From which number on a cell is brightest: 1, or what one in a hundred of the cells in view that hold anything exceeds.
  function brightest(m, values) {
    if (!fit.checked) return 1;
    const some = [], from = (edge, start, size) => Math.max(0, Math.floor((edge - start) / size));
    const rows = [from(view.top, m.top, m.height), Math.min(m.rows, Math.ceil((view.bottom - m.top) / m.height))];
    const columns = [from(view.left, m.left, m.width), Math.min(m.columns, Math.ceil((view.right - m.left) / m.width))];
    const skip = Math.max(1, Math.floor(((rows[1] - rows[0]) * (columns[1] - columns[0])) / 40000));
    let n = 0;
    for (let r = rows[0]; r < rows[1]; r++)
      for (let c = columns[0]; c < columns[1]; c++) {
        const x = values[r * m.columns + c];
        if (x > 0 && n++ % skip === 0) some.push(x);
      }
    some.sort((a, b) => a - b);
    return some.length ? some[Math.min(some.length - 1, Math.floor(0.99 * some.length))] : 1;
  }
  let drawn = { sheet: null };
  function sheetOf(m, values, top) {
    const same = drawn.m === m && drawn.values === values && drawn.top === top && drawn.dark === dark.matches;
    if (same) return drawn.sheet;
    const sheet = new OffscreenCanvas(m.columns, m.rows), pen = sheet.getContext("2d"), image = pen.createImageData(m.columns, m.rows);
    const table = Array.from({ length: 1025 }, (_, i) => colour((i / 1024) ** 2));
    for (let i = 0; i < values.length; i++) {
      const t = table[Math.round(1024 * Math.sqrt(Math.min(1, values[i] / top)))], o = 4 * i;
      image.data[o] = t[0]; image.data[o + 1] = t[1]; image.data[o + 2] = t[2]; image.data[o + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
    drawn = { sheet, m, values, top, dark: dark.matches };
    return sheet;
  }

  function show() {
    if (!whole) return;
    const ratio = window.devicePixelRatio || 1, m = shown(), values = plane(m), top = brightest(m, values);
    most.textContent = fit.checked ? `${number(top)} and more` : "1";
    canvas.width = (LEFT + SIDE) * ratio; canvas.height = (TOP + SIDE) * ratio;
    canvas.style.width = LEFT + SIDE + "px";
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = getComputedStyle(document.body).color;
    const sheet = sheetOf(m, values, top);
    const x = SIDE / (view.right - view.left), y = SIDE / (view.bottom - view.top);
    paint.save();
    paint.beginPath(); paint.rect(LEFT, TOP, SIDE, SIDE); paint.clip();
    paint.imageSmoothingEnabled = m.width * x < 1;
    // The sheet is in whole cells; the last row and column may reach past the end, which the clip and the cut take off.
    paint.drawImage(sheet, LEFT + (m.left - view.left) * x, TOP + (m.top - view.top) * y,
      m.columns * m.width * x, m.rows * m.height * y);
    paint.restore();
    paint.strokeStyle = ink; paint.strokeRect(LEFT, TOP, SIDE, SIDE);
    labels(ink, x, y);
    const c = cell();
    paint.lineWidth = 2; paint.strokeStyle = dark.matches ? "#6cc0e0" : "#0b6b8f";
    paint.strokeRect(LEFT + (c.left - view.left) * x, TOP + (c.top - view.top) * y,
      Math.max(3, (c.right - c.left) * x), Math.max(3, (c.bottom - c.top) * y));
    paint.lineWidth = 1;
    tell();
  }

  function labels(ink, x, y) {
    paint.fillStyle = ink; paint.font = "12px system-ui, sans-serif"; paint.textBaseline = "middle";
    const names = (from, to, per, put) => {
      const step = Math.max(1, Math.ceil(14 / per)), nice = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000];
      const jump = nice.find((n) => n >= step) || step;
      for (let n = Math.ceil(from / jump) * jump; n < to; n += jump) put(n, (n + 0.5 - from) * per, jump);
    };
    const short = (n, jump, tokens) => (jump <= 2 && tokens[n] !== undefined ? clip(tokens[n]) : String(n));
    names(view.top, view.bottom, y, (n, where, jump) => {
      paint.textAlign = "right"; paint.fillText(short(n, jump, data.tokens), LEFT - 6, TOP + where, LEFT - 10);
    });
    names(view.left, view.right, x, (n, where, jump) => {
      paint.save(); paint.translate(LEFT + where, TOP - 6); paint.rotate(-Math.PI / 2);
      paint.textAlign = "left"; paint.fillText(short(n, jump, data.tokens), 0, 0, TOP - 10); paint.restore();
    });
    paint.textAlign = "left"; paint.fillText("keys →", 4, 12); paint.fillText("queries ↓", 4, 30);
  }
  const clip = (s) => { const t = s.replace(/\s/g, "␣"); return t.length > 12 ? t.slice(0, 11) + "…" : t; };

  function cell() {
    const m = shown();
    const r = Math.min(m.rows - 1, Math.max(0, Math.floor((at.q - m.top) / m.height)));
    const c = Math.min(m.columns - 1, Math.max(0, Math.floor((at.k - m.left) / m.width)));
    return { r, c, top: m.top + r * m.height, left: m.left + c * m.width,
      bottom: Math.min(m.bottom, m.top + (r + 1) * m.height), right: Math.min(m.right, m.left + (c + 1) * m.width) };
  }
  function span(from, to) {
    const words = data.tokens.slice(from, Math.min(to, from + 8)).join("").trim();
    const text = words ? ` “${words.length > 60 ? words.slice(0, 60) : words}${to > from + 8 ? "…" : ""}”` : "";
    return (to - from === 1 ? String(from) : `${from}–${to - 1}`) + text;
  }
  function tell() {
    const m = shown(), c = cell(), i = c.r * m.columns + c.c, o = first.checked ? 2 : 0, single = m.width === 1 && m.height === 1;
    const share = m.planes[o][i], largest = m.planes[o + 1][i], mean = share / (c.right - c.left);
    say.textContent = `Query ${span(c.top, c.bottom)} → key ${span(c.left, c.right)}: ` + (single
      ? `weight ${number(largest)}.`
      : `${number(share)} of a query's weight falls here (mean of its queries); mean weight in the cell ${number(mean)}, ` +
        `largest ${number(largest)}.`) + (first.checked ? " Without the first token." : "");
    const values = plane(m), best = [];
    for (let k = 0; k < m.columns; k++) best.push([values[c.r * m.columns + k], k]);
    best.sort((a, b) => b[0] - a[0]);
    list.replaceChildren(...best.slice(0, 8).filter((b) => b[0] > 0).map(([v, k]) => {
      const item = document.createElement("li"), left = m.left + k * m.width;
      item.textContent = `${number(v)} on ${span(left, Math.min(m.right, left + m.width))}`;
      return item;
    }));
    note.textContent = single ? "A cell is one query and one key."
      : `A cell is ${m.height} queries by ${m.width} keys.` + (data.served ? " Come closer for single tokens."
        : " This page holds no more; regard inspect … --serve comes as close as single tokens.");
  }

  // A closer look: where a server draws, the part in view is asked for as soon as its cells are coarse.
  function closer() {
    if (!data.served || !whole) return;
    clearTimeout(timer);
    if (whole.width === 1 && whole.height === 1) return;
    const part = { top: Math.floor(view.top), bottom: Math.ceil(view.bottom), left: Math.floor(view.left), right: Math.ceil(view.right) };
    if (part.bottom - part.top >= whole.bottom && part.right - part.left >= whole.right) { fine = null; show(); return; }
    timer = setTimeout(async () => {
      const mine = ++asked, index = head;
      try {
        const made = await fetched(index, part, 256);
        if (mine === asked && index === head) { fine = made; show(); }
      } catch (error) { say.textContent = "The closer map cannot be drawn: " + error.message; }
    }, 120);
  }
  function move(top, left, rows, columns) {
    rows = Math.min(whole.bottom, Math.max(Math.min(8, whole.bottom), rows));
    columns = Math.min(whole.right, Math.max(Math.min(8, whole.right), columns));
    top = Math.min(whole.bottom - rows, Math.max(0, top)); left = Math.min(whole.right - columns, Math.max(0, left));
    view = { top, bottom: top + rows, left, right: left + columns };
    if (fine && (view.top < fine.top || view.bottom > fine.bottom || view.left < fine.left || view.right > fine.right)) fine = null;
    show(); closer();
  }
  function zoom(by, q = at.q + 0.5, k = at.k + 0.5) {
    if (!whole) return;
    const rows = (view.bottom - view.top) * by, columns = (view.right - view.left) * by;
    move(q - (q - view.top) * by, k - (k - view.left) * by, rows, columns);
  }
  function step(down, across) {
    if (!whole) return;
    const m = shown(), c = cell();
    at = { q: Math.min(whole.bottom - 1, Math.max(0, c.top + down * m.height)), k: Math.min(whole.right - 1, Math.max(0, c.left + across * m.width)) };
    const rows = view.bottom - view.top, columns = view.right - view.left;
    let { top, left } = view;
    if (at.q < view.top) top = at.q; if (at.q >= view.bottom) top = at.q + m.height - rows;
    if (at.k < view.left) left = at.k; if (at.k >= view.right) left = at.k + m.width - columns;
    if (top !== view.top || left !== view.left) move(top, left, rows, columns); else show();
  }
  function pointed(event) {
    const box = canvas.getBoundingClientRect(), f = (LEFT + SIDE) / box.width;
    const x = ((event.clientX - box.left) * f - LEFT) / SIDE, y = ((event.clientY - box.top) * f - TOP) / SIDE;
    if (x < 0 || y < 0 || x >= 1 || y >= 1) return null;
    return { q: view.top + y * (view.bottom - view.top), k: view.left + x * (view.right - view.left) };
  }
  const keys = {
    ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0), ArrowLeft: () => step(0, -1), ArrowRight: () => step(0, 1),
    PageUp: () => step(-16, 0), PageDown: () => step(16, 0), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    0: () => whole && move(0, 0, whole.bottom, whole.right), Home: () => step(0, -1e9), End: () => step(0, 1e9),
  };
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!whole) return;
    canvas.focus();
    drag = { x: event.clientX, y: event.clientY, view: { ...view } };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!whole) return;
    if (drag) {
      const f = (LEFT + SIDE) / canvas.getBoundingClientRect().width / SIDE, v = drag.view;
      move(v.top - (event.clientY - drag.y) * f * (v.bottom - v.top), v.left - (event.clientX - drag.x) * f * (v.right - v.left),
        v.bottom - v.top, v.right - v.left);
      return;
    }
    const place = pointed(event);
    if (place) { at = { q: Math.floor(place.q), k: Math.floor(place.k) }; show(); }
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("wheel", (event) => {
    const place = whole && document.activeElement === canvas && pointed(event);
    if (place) { event.preventDefault(); zoom(event.deltaY < 0 ? 0.8 : 1.25, place.q, place.k); }
  }, { passive: false });
  document.getElementById("in").addEventListener("click", () => zoom(0.5));
  document.getElementById("out").addEventListener("click", () => zoom(2));
  document.getElementById("all").addEventListener("click", () => keys[0]());
  pick.addEventListener("change", () => choose(pick.value));
  for (const control of [what, first, fit]) control.addEventListener("change", () => { scale(); show(); });
  dark.addEventListener("change", () => { scale(); show(); });
  document.querySelectorAll("button[data-map]").forEach((button) => button.addEventListener("click", () => {
    choose(button.dataset.map); document.getElementById("look").scrollIntoView(); canvas.focus();
  }));

  // The table sorts by any column, numbers from the largest.
  document.querySelectorAll("thead button").forEach((button) => button.addEventListener("click", () => {
    const column = button.parentElement, n = column.cellIndex, body = column.closest("table").tBodies[0];
    const down = column.getAttribute("aria-sort") !== "descending";
    column.parentElement.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    column.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => { const s = row.cells[n].dataset.value ?? row.cells[n].textContent, x = Number(s); return Number.isNaN(x) ? s : x; };
    const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1);
    const rows = [...body.rows].sort((a, b) => order(value(a), value(b)));
    body.append(...(down ? rows.reverse() : rows));
  }));

  function scale() {
    const bar = document.getElementById("scale"), pen = bar.getContext("2d");
    for (let i = 0; i < bar.width; i++) { pen.fillStyle = `rgb(${colour((i / (bar.width - 1)) ** 2).join(",")})`; pen.fillRect(i, 0, 1, bar.height); }
  }
  scale();
  if (pick.options.length) choose(pick.value);
})();
