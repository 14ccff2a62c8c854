// Text with terminal colours (ECMA-48, "SGR") -> pieces with classes. Every other control sequence goes.

const SEQUENCE = /\x1b\[([\d;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f\x9b]/g;

/** The nearest of a theme's sixteen colours, so that it can be read on any ground. */
function nearest(r, g, b) {
  const high = Math.max(r, g, b);
  const isOn = (value) => value > high * 0.6 && value > 40;
  const hue = (isOn(r) ? 1 : 0) + (isOn(g) ? 2 : 0) + (isOn(b) ? 4 : 0);
  return hue === 7 ? (high > 200 ? 15 : 8) : hue;
}

function indexed(n) {
  if (n < 16) return n;
  if (n >= 232) return n > 243 ? 7 : 8;
  const level = (value) => (value ? 55 + 40 * value : 0);
  return nearest(level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6));
}

function change(style, codes) {
  for (let at = 0; at < codes.length; at += 1) {
    const n = codes[at];
    const colour = () => {
      if (codes[at + 1] === 5) return indexed(codes[(at += 2)] ?? 7);
      if (codes[at + 1] === 2) { at += 4; return nearest(codes[at - 2], codes[at - 1], codes[at]); }
      return null;
    };
    if (n === 0) for (const key of Object.keys(style)) delete style[key];
    else if (n === 1) style.bold = true;
    else if (n === 3) style.italic = true;
    else if (n === 4) style.under = true;
    else if (n === 7) style.rev = true;
    else if (n === 22) delete style.bold;
    else if (n === 23) delete style.italic;
    else if (n === 24) delete style.under;
    else if (n === 27) delete style.rev;
    else if (n >= 30 && n <= 37) style.f = n - 30;
    else if (n === 38) style.f = colour();
    else if (n === 39) delete style.f;
    else if (n >= 40 && n <= 47) style.b = n - 40;
    else if (n === 48) style.b = colour();
    else if (n === 49) delete style.b;
    else if (n >= 90 && n <= 97) style.f = n - 82;
    else if (n >= 100 && n <= 107) style.b = n - 92;
  }
}

/** `[text, class]` pairs. */
export function pieces(text) {
  const all = [];
  const style = {};
  let from = 0;
  const push = (end) => {
    if (end <= from) return;
    const named = Object.entries(style).filter(([, value]) => value != null);
    all.push([text.slice(from, end), named.map(([key, value]) => (value === true ? `a-${key}` : `a-${key}${value}`)).join(" ")]);
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") change(style, (match[1] || "0").split(/[;:]/).map(Number));
  }
  push(text.length);
  return all;
}
