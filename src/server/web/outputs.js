// Outputs of cells. What came from code is hostile: text is text, pictures are pictures, HTML is what the server made
// safe, and everything else is drawn in a frame without an origin.

import { pieces } from "./ansi.js";
import { Grid } from "./grid.js";
import { Dialog, Icon, Safe, Tool, attempt, html, memo, plural, saveAs, size, thousands, toast, useEffect, useRef, useState } from "./ui.js";

const LINES = 40;
const HEAD = 20;
const MOST_LINES = 5000;
/** What the parent of a frame lets it be high, in pixels. */
const TALLEST = 4000;
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/svg+xml"];
const DRAWN = /^text\/html$|^application\/(javascript|vnd\.(plotly|vega|vegalite|bokeh|holoviews|jupyter\.widget))|^text\/vnd\./;

const BOKEH_LOAD = "application/vnd.bokehjs_load.v0+json";
const BOKEH_EXEC = "application/vnd.bokehjs_exec.v0+json";

const Coloured = ({ text }) => pieces(text).map(([part, style]) => style ? html`<span class=${style}>${part}</span>` : part);

/** Text with its colours; of long text the beginning and the end. */
export function Text({ item, label, kind, live }) {
  const [all, setAll] = useState(false);
  const gone = item.gone ?? 0;
  const text = (item.head ?? "") + (gone ? `\n[… ${thousands(gone)} characters more …]\n` : "") + item.shown;
  const trimmed = text.endsWith("\n") ? text.slice(0, -1) : text;
  const block = (part, more = "") => html`<pre class=${`${kind} ${more}`} tabindex="0" role="region" aria-label=${label}><${Coloured} text=${part} /></pre>`;
  if (!trimmed) return null;
  const lines = trimmed.split("\n", MOST_LINES * 20);
  const isLong = lines.length > LINES || trimmed.length > 20_000;
  if (!isLong) return block(trimmed);
  const clip = (part) => (part.length > 6000 ? `${part.slice(0, 3000)} … ${part.slice(-3000)}` : part);
  const save = () => saveAs(new Blob([text]), "output.txt");
  const tools = html`<p class="more">
    <button type="button" class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Show less" : `Show all ${plural(lines.length, "line")}`}</button>
    <button type="button" class="link" onClick=${save}>Save text</button></p>`;
  if (all) {
    const shown = lines.slice(-MOST_LINES).join("\n").slice(-1_000_000);
    return html`${tools}${block(shown, "tall")}`;
  }
  const head = live ? 5 : HEAD;
  return html`${block(clip(lines.slice(0, head).join("\n")))}${tools}${block(clip(lines.slice(-(live ? HEAD : 5)).join("\n")))}`;
}

function Traceback({ output }) {
  const [open, setOpen] = useState(false);
  const { ename, evalue, traceback } = output;
  const text = traceback.join("\n") || `${ename}: ${evalue}`;
  const plainLine = pieces(`${ename}${evalue ? `: ${evalue}` : ""}`).map(([part]) => part).join("").split("\n")[0];
  return html`<div class="error">
    <button type="button" class="error-line" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      <${Icon} name="down" /><span>${plainLine}</span></button>
    ${open && html`<pre class="traceback" tabindex="0" role="region" aria-label="Traceback"><${Coloured} text=${text} /></pre>`}
  </div>`;
}

// ---- pictures

function bytesOf(base64) {
  const binary = atob(base64.replace(/\s/g, ""));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

/** A picture's address; never one that could run anything, for an `img` runs nothing. */
function address(mime, data, far) {
  if (data?.large) return far(mime);
  if (mime === "image/svg+xml") return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(data)}`;
  return `data:${mime};base64,${String(data).replace(/[^A-Za-z0-9+/=]/g, "")}`;
}

async function blobOf(mime, data, far) {
  if (data?.large) return new Blob([await (await fetch(far(mime))).blob()], { type: mime });
  return new Blob([mime === "image/svg+xml" ? data : bytesOf(data)], { type: mime });
}

/** What a picture is drawn on, as PNG. */
async function rastered(source) {
  const image = new Image();
  image.src = source;
  await image.decode();
  const scale = source.includes("svg") ? 2 : 1;
  const canvas = document.createElement("canvas");
  canvas.width = (image.naturalWidth || 800) * scale;
  canvas.height = (image.naturalHeight || 600) * scale;
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** A plot, as vector graphic and as data too: those are kept in files once the cell has ended. */
function Plot({ types, isRunning, ...picture }) {
  const [kept, setKept] = useState({});
  useEffect(() => {
    let isOld = false;
    if (!isRunning && picture.mime === "image/png") {
      const far = (found) => Object.fromEntries(found.types.map((it) => [it.mime, { large: it.bytes }]));
      types().then((found) => !isOld && setKept(far(found)), () => {});
    }
    return () => { isOld = true; };
  }, [isRunning, picture.mime]);
  return html`<${Picture} ...${picture} bundle=${{ ...kept, ...picture.bundle }} />`;
}

function Picture({ mime, data, bundle, far, number, metadata }) {
  const [isLarge, setLarge] = useState(false);
  const source = address(mime, data, far);
  const name = `plot-${number}`;
  const title = `Plot ${number}`;
  const alt = [title, metadata?.[mime]?.alt].filter((it) => typeof it === "string").join(": ");
  const saveImage = (kind) => attempt(async () => {
    const has = bundle[kind];
    const blob = has !== undefined ? await blobOf(kind, has, far) : await rastered(source);
    saveAs(blob, `${name}.${kind === "image/svg+xml" ? "svg" : "png"}`);
  });
  const saveData = () => attempt(async () => saveAs(await (await fetch(far("text/csv"))).blob(), `${name}.csv`));
  const copy = () => attempt(async () => {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": mime === "image/png" ? blobOf(mime, data, far) : rastered(source) })]);
    toast("Picture copied");
  });
  const { width, height } = metadata?.[mime] ?? {};
  const image = (more) => html`<img src=${source} alt=${alt} width=${width} height=${height} ...${more} />`;
  return html`<figure class="picture">
    <button type="button" class="zoom" aria-label=${`Enlarge ${title}`} onClick=${() => setLarge(true)}>${image({ loading: "lazy" })}</button>
    <div class="picture-tools">
      <${Tool} icon="zoom" label="Enlarge" onClick=${() => setLarge(true)} />
      <${Tool} icon="copy" label="Copy picture" onClick=${copy} />
      <${Tool} icon="save" label="Save as PNG" onClick=${() => saveImage("image/png")}>PNG<//>
      ${bundle["image/svg+xml"] !== undefined && html`<${Tool} icon="save" label="Save as SVG" onClick=${() => saveImage("image/svg+xml")}>SVG<//>`}
      ${bundle["text/csv"] !== undefined && html`<${Tool} icon="table" label="Save its data as CSV" onClick=${saveData}>CSV<//>`}
    </div>
    ${isLarge && html`<${Dialog} title=${title} wide onClose=${() => setLarge(false)}><div class="lightbox">${image()}</div><//>`}
  </figure>`;
}

// ---- HTML and what draws itself

/** Never `allow-same-origin`: what runs in there reaches neither the page nor the server. */
const SANDBOX = "allow-scripts allow-downloads allow-forms allow-pointer-lock";

function Frame({ url }) {
  const element = useRef();
  const [height, setHeight] = useState(160);
  useEffect(() => {
    const listen = (event) => {
      if (event.source !== element.current?.contentWindow || event.data?.sponde !== "height") return;
      const wanted = Number(event.data.height);
      if (Number.isFinite(wanted)) setHeight(Math.min(TALLEST, Math.max(24, Math.ceil(wanted))));
    };
    addEventListener("message", listen);
    return () => removeEventListener("message", listen);
  }, []);
  useEffect(() => { element.current.style.height = `${height}px`; }, [height]);
  return html`<iframe ref=${element} class="frame" sandbox=${SANDBOX} src=${url} title="Interactive output" allow="fullscreen" referrerpolicy="no-referrer" loading="lazy"></iframe>`;
}

function Rich({ live, cell, n, rev, fallback }) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let isOld = false;
    live.to.html(cell, n).then((answer) => !isOld && setFound(answer), () => !isOld && setFound({}));
    return () => { isOld = true; };
  }, [cell, n, rev]);
  if (!found) return html`<div class="waiting" aria-busy="true">${fallback}</div>`;
  if (found.frame) return html`<${Frame} key=${found.frame} url=${found.frame.replace(/^\//, "")} />`;
  if (found.html) return html`<${Safe} text=${found.html} class="rich" role="region" aria-label="Output" tabindex="0" />`;
  return fallback;
}

/** The name of a frame, if that is all that the last line of the code says. */
function frameName(source) {
  const last = source.trimEnd().split("\n").at(-1) ?? "";
  return /^([A-Za-z_]\w*)(\.(head|tail|sample)\(\d*\))?;?$/.exec(last)?.[1] ?? null;
}

function Bundle({ live, cell, n, item, isRunning, source, language, number }) {
  const { data, metadata } = item.output;
  const [grid, setGrid] = useState(null);
  const far = (mime) => live.to.output(cell, n, mime);
  const types = Object.keys(data);
  const plain = data["text/plain"];
  const text = typeof plain === "string" || Array.isArray(plain) ? [plain].flat().join("") : null;
  const asText = text !== null
    ? html`<${Text} item=${{ shown: text }} kind="result" label="Result" />`
    : html`<p class="remark">(an output of the type ${types.join(", ")})</p>`;
  const picture = PICTURES.find((mime) => types.includes(mime));
  const isDrawn = types.some((mime) => DRAWN.test(mime));
  if (isDrawn && !(picture && !types.some((mime) => mime.startsWith("application/vnd")))) {
    // Only kernels of Python are asked for rows.
    const isTable = language === "python" && types.includes("text/html") && item.output.output_type === "execute_result";
    const table = isTable ? frameName(source) : null;
    return html`<${Rich} live=${live} cell=${cell} n=${n} rev=${item.rev} fallback=${picture ? html`<${Picture} ...${{ mime: picture, data: data[picture], bundle: data, far, number, metadata }} />` : asText} />
      ${table && (data["text/html"].large || String(data["text/html"]).includes("<table")) && html`<button type="button" class="link explore" onClick=${() => setGrid(table)}><${Icon} name="table" />Explore <code>${table}</code></button>`}
      ${grid && html`<${Grid} live=${live} name=${grid} onClose=${() => setGrid(null)} />`}`;
  }
  if (picture) return html`<${Plot} key=${item.rev} mime=${picture} data=${data[picture]} bundle=${data} far=${far} number=${number} metadata=${metadata} isRunning=${isRunning} types=${() => live.to.types(cell, n)} />`;
  if (types.includes("text/markdown") || types.includes("text/latex")) {
    return html`<${Rich} live=${live} cell=${cell} n=${n} rev=${item.rev} fallback=${asText} />`;
  }
  if (types.includes("application/json") && (text === null || text.startsWith("<"))) {
    const json = data["application/json"];
    if (json?.large) return html`<p class="remark"><a href=${far("application/json")} download="output.json">JSON, ${size(json.large)}</a></p>`;
    return html`<${Text} item=${{ shown: JSON.stringify(json, null, 2) }} kind="result" label="Result" />`;
  }
  if (plain?.large) return html`<p class="remark"><a href=${far("text/plain")} download="output.txt">Text, ${size(plain.large)}</a></p>`;
  return asText;
}

const Output = memo(({ live, cell, n, item, isRunning, source, language, number }) => {
  if (item.type === "text") return html`<${Text} item=${item} live=${isRunning} kind=${item.name} label=${item.name === "stderr" ? "Warnings and messages" : "Output"} />`;
  const { output } = item;
  if (output.output_type === "error") return html`<${Traceback} output=${output} />`;
  if (output.output_type === "stream") return html`<${Text} item=${{ shown: [output.text].flat().join("") }} kind="stdout" label="Output" />`;
  if (!output.data) return html`<p class="remark">(an output of a kind that is not known here)</p>`;
  return html`<${Bundle} live=${live} cell=${cell} n=${n} item=${item} isRunning=${isRunning} source=${source} language=${language} number=${number} />`;
});

const has = (item, mime) => item?.output?.data?.[mime] !== undefined;
/** Bokeh's library, its banner, and the elements that a script draws into: they are in the frame of that script. */
const isPartOfChart = (all, n) => has(all[n], BOKEH_LOAD) || (has(all[n], "text/html") && (has(all[n + 1], BOKEH_LOAD) || has(all[n + 1], BOKEH_EXEC)));

/** All outputs of a cell. */
export function Outputs({ live, cell, language, first }) {
  if (!cell.outputs.length) return null;
  const isRunning = cell.status === "running";
  let number = first;
  const most = 200;
  const shown = cell.outputs.slice(0, most);
  return html`<div class="outputs">
    ${shown.map((item, n) => {
      if (isPartOfChart(cell.outputs, n)) return null;
      const isPicture = item.output?.data && PICTURES.some((mime) => mime in item.output.data);
      return html`<${Output} key=${n} live=${live} cell=${cell.id} n=${n} item=${item} rev=${item.rev} isRunning=${isRunning} source=${cell.source} language=${language} number=${isPicture ? number++ : 0} />`;
    })}
    ${cell.outputs.length > most && html`<p class="remark">(${plural(cell.outputs.length - most, "output")} more in the notebook)</p>`}
    ${cell.cut && cell.whole !== "here" && html`<p class="remark">${size(cell.cut.bytes)} of output are not kept here${cell.whole.files ? html`; all of it is in <code>${cell.whole.files.beside_notebook}/</code>` : ""}</p>`}
  </div>`;
}
