// A frame of the kernel in a grid: windows of a hundred rows are asked for as they come into view, never the whole.

import { Dialog, Icon, Menu, attempt, html, memo, thousands, useCallback, useEffect, useMemo, useRef, useState } from "./ui.js";

const WINDOW = 100;
const ROW = 28;
/** Browsers cannot make an element higher than about 30 million pixels; beyond this, scrolling is scaled. */
const HIGHEST = 8_000_000;
/** Windows that are kept. */
const KEPT = 40;

const show = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value).replace(/^(\d{4}-\d\d-\d\d)[T ]00:00:00$/, "$1");
};
const isNumber = (type) => /int|float|double|decimal|num|complex/i.test(type ?? "");

function Histogram({ bins }) {
  const counts = bins.map((bin) => bin.count);
  const most = Math.max(1, ...counts);
  return html`<svg class="histogram" viewBox=${`0 0 ${counts.length * 10} 40`} preserveAspectRatio="none" role="img" aria-label=${`Histogram of ${counts.length} bins`}>
    ${counts.map((count, at) => html`<rect x=${at * 10 + 0.5} y=${40 - (count / most) * 40} width="9" height=${(count / most) * 40} />`)}</svg>`;
}

function Profile({ live, name, column, onClose }) {
  const [profile, setProfile] = useState(null);
  useEffect(() => {
    let isOld = false;
    setProfile(null);
    live.to.profile(name, column.name).then((it) => !isOld && setProfile(it), (error) => !isOld && setProfile({ error: error.message }));
    return () => { isOld = true; };
  }, [name, column.name]);
  const facts = ["count", "missing", "distinct", "min", "max", "mean"].filter((key) => profile?.[key] !== undefined && profile[key] !== null);
  const shown = (value) => (typeof value === "number" ? (Number.isInteger(value) ? thousands(value) : value.toPrecision(6)) : show(value));
  return html`<aside class="profile" aria-label=${`Profile of ${column.name}`}>
    <header><h3>${column.name}</h3><span class="quiet">${column.type}</span>
      <button type="button" class="link" onClick=${onClose}>Close</button></header>
    ${!profile && html`<p class="quiet">Counting…</p>`}
    ${profile?.error && html`<p class="bad">${profile.error}</p>`}
    ${profile && html`<dl>${facts.map((key) => html`<dt>${key}</dt><dd>${shown(profile[key])}</dd>`)}</dl>`}
    ${profile?.histogram?.length > 0 && html`<${Histogram} bins=${profile.histogram} />`}
    ${profile?.top?.length > 0 && html`<ol class="top">${profile.top.slice(0, 10).map(({ value, count }) => html`<li><span>${show(value)}</span><span class="quiet">${thousands(count)}</span></li>`)}</ol>`}
  </aside>`;
}

const Row = memo(({ row, at, columns }) => html`<div class="grid-row" role="row" aria-rowindex=${at + 2}>
  <span class="grid-cell grid-index" role="rowheader">${thousands(at)}</span>
  ${columns.map((column, i) => html`<span role="gridcell" class=${`grid-cell ${isNumber(column.type) ? "number" : ""} ${row && row[i] === null ? "missing" : ""}`}>${row ? (row[i] === null ? "missing" : show(row[i])) : "…"}</span>`)}
</div>`);

export function Grid({ live, name, onClose }) {
  const [columns, setColumns] = useState(null);
  const [total, setTotal] = useState(0);
  const [order, setOrder] = useState({ sort: null, descending: false, filter: "" });
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const [profiled, setProfiled] = useState(null);
  const [error, setError] = useState(null);
  const [, draw] = useState(0);
  const windows = useMemo(() => new Map(), [order]);
  const box = useRef();
  const pending = useRef(0);

  const load = useCallback(async (at) => {
    if (windows.has(at)) return;
    windows.set(at, null);
    try {
      const got = await live.to.rows(name, { offset: at * WINDOW, limit: WINDOW, sort: order.sort, descending: order.sort ? order.descending : undefined, filter: order.filter });
      windows.set(at, got.rows);
      if (windows.size > KEPT) windows.delete(windows.keys().next().value);
      setColumns(got.columns);
      setTotal(got.total);
      setError(null);
    } catch (failed) {
      windows.delete(at);
      setError(failed.message);
    }
    draw((n) => n + 1);
  }, [windows]);

  useEffect(() => { load(0); if (box.current) box.current.scrollTop = 0; setTop(0); }, [windows]);

  const full = total * ROW;
  const shownHeight = Math.min(full, HIGHEST);
  const scale = full > HIGHEST ? (full - height) / (HIGHEST - height) : 1;
  const first = Math.max(0, Math.min(total - 1, Math.floor((top * scale) / ROW)));
  const count = Math.ceil(height / ROW) + 2;
  const last = Math.min(total, first + count);
  useEffect(() => {
    // Whoever scrolls past a million rows wants the ones where they stop.
    clearTimeout(pending.current);
    pending.current = setTimeout(() => {
      for (let at = Math.floor(first / WINDOW); at <= Math.floor(Math.max(0, last - 1) / WINDOW); at += 1) load(at);
    }, 60);
    return () => clearTimeout(pending.current);
  }, [first, last, windows]);

  useEffect(() => {
    // A dialog has its size only once it is open.
    const watch = new ResizeObserver(() => box.current && setHeight(Math.max(ROW, box.current.clientHeight - 34)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const go = (row) => { box.current.scrollTop = (row * ROW) / scale; };
  const sortBy = (column) => setOrder((now) => ({
    ...now, sort: now.sort === column && now.descending ? null : column, descending: now.sort === column && !now.descending,
  }));
  const keys = (event) => {
    const jump = { PageDown: count - 3, PageUp: 3 - count, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Home" || event.key === "End") go(event.key === "Home" ? 0 : total);
    else if (jump) go(Math.max(0, first + jump));
    else return;
    event.preventDefault();
  };
  const rows = [];
  for (let at = first; at < last; at += 1) {
    rows.push(html`<${Row} key=${at} at=${at} row=${windows.get(Math.floor(at / WINDOW))?.[at % WINDOW]} columns=${columns} />`);
  }
  const style = useRef();
  useEffect(() => {
    if (!style.current) return;
    style.current.firstChild.style.height = `${shownHeight}px`;
    style.current.lastChild.style.transform = `translateY(${scale === 1 ? first * ROW : top}px)`;
  });
  return html`<${Dialog} title=${name} wide onClose=${onClose}>
    <div class="grid-tools">
      <form onSubmit=${(event) => { event.preventDefault(); setOrder((now) => ({ ...now, filter: event.target.filter.value })); }}>
        <input name="filter" type="search" placeholder="Rows that contain…" aria-label="Filter rows" onSearch=${(event) => setOrder((now) => ({ ...now, filter: event.target.value }))} /></form>
      <form onSubmit=${(event) => { event.preventDefault(); go(Math.max(0, Number(event.target.row.value.replace(/\D/g, "")) || 0)); }}>
        <input name="row" inputmode="numeric" placeholder="Go to row" aria-label="Go to row" size="9" /></form>
      <span class="quiet" role="status">${thousands(total)} rows${columns ? ` × ${columns.length} columns` : ""}</span>
      <span class="space"></span>
      <${Menu} label="Save as" icon="save" text="Save" items=${["csv", "parquet", "xlsx"].map((format) => ({ text: format === "csv" ? "CSV" : format === "xlsx" ? "Excel (XLSX)" : "Parquet", href: live.to.exportFrame(name, { format, ...order, descending: order.sort ? order.descending : undefined }) }))} />
    </div>
    ${error && html`<p class="bad" role="alert">${error} <button type="button" class="link" onClick=${() => attempt(() => load(Math.floor(first / WINDOW)))}>Try again</button></p>`}
    <div class="grid-body">
      <div class="grid" ref=${box} role="grid" tabindex="0" aria-label=${`Rows of ${name}`} aria-rowcount=${total + 1} onKeyDown=${keys} onScroll=${(event) => setTop(event.currentTarget.scrollTop)}>
        ${columns && html`<div class="grid-head" role="row"><span class="grid-cell grid-index" role="columnheader">#</span>
          ${columns.map((column) => html`<span class=${`grid-cell ${isNumber(column.type) ? "number" : ""}`} role="columnheader" aria-sort=${order.sort === column.name ? (order.descending ? "descending" : "ascending") : "none"}>
            <button type="button" class="head" onClick=${() => sortBy(column.name)} title=${`Sort by ${column.name} (${column.type})`}>${column.name}<b>${order.sort === column.name ? (order.descending ? " ↓" : " ↑") : ""}</b></button>
            <button type="button" class="head-more" aria-label=${`Profile of ${column.name}`} title="Profile" onClick=${() => setProfiled(column)}><${Icon} name="more" /></button></span>`)}</div>
        <div class="grid-rows" ref=${style}><div></div><div class="grid-shown">${rows}</div></div>`}
        ${!columns && !error && html`<p class="quiet">Asking the kernel…</p>`}
      </div>
      ${profiled && html`<${Profile} live=${live} name=${name} column=${profiled} onClose=${() => setProfiled(null)} />`}
    </div>
  <//>`;
}
