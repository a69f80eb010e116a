// Numbers and times as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export const count = (value) => Math.round(value).toLocaleString("en");

export const counted = (value, thing) => `${count(value)} ${thing}${value === 1 ? "" : "s"}`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "…";
  if (perSecond === 0) return "0/s";
  return perSecond < 10 ? `${perSecond.toFixed(1)}/s` : `${count(perSecond)}/s`;
}

export const byteRate = (perSecond) => (perSecond === null || perSecond === undefined ? "…" : `${bytes(perSecond)}/s`);

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const pad = (value, digits = 2) => String(value).padStart(digits, "0");

export function clock(us) {
  const at = new Date(us / 1000);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
}

export function day(us) {
  const at = new Date(us / 1000);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

export const moment = (us) => `${day(us)} ${clock(us)}`;
export const ago = (us, nowMs) => (us ? `${duration(Math.max(nowMs - us / 1000, 0) / 1000)} ago` : "never");

// --- payloads ---

export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export function asText(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return null;
  }
}

// What cannot be seen is written out, so that it cannot turn a line around or hide another.
export const visible = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function hexDump(data, most = 4096) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = [...data.slice(at, at + 16)];
    const hex = row.map((byte) => pad(byte.toString(16))).join(" ").padEnd(47);
    lines.push(`${pad(at.toString(16), 6)}  ${hex}  ${row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("")}`);
  }
  if (data.length > most) lines.push(`… ${data.length - most} more bytes`);
  return lines.join("\n");
}

export function peek(event) {
  const text = asText(fromBase64(event.payload));
  return text === null ? `${event.size} bytes` : visible(text.replace(/\s+/g, " "));
}

export function keyText(event) {
  if (event.key === null) return null;
  const data = fromBase64(event.key);
  const text = asText(data);
  return text === null ? `0x${[...data].map((byte) => pad(byte.toString(16))).join("")}` : visible(text);
}
