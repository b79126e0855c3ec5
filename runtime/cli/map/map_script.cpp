// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The script: arrays with an entry for each segment, made from the runs of the map; a picture of the visible part,
/// pixel by pixel where segments are small; events.

#include "runtime/cli/map/map_script.hpp"

namespace orchard::command_line {

const char* const map_script = R"JS('use strict';
const map = JSON.parse(document.getElementById('map').textContent);
const colours = JSON.parse(document.getElementById('colours').textContent);
const $ = id => document.getElementById(id);
const n = map.segments, MiB = map.segment_bytes / 1048576, leavesIn = map.segment_bytes / map.leaf_bytes;
const useNames = Object.keys(colours.uses), tierNames = Object.keys(colours.tiers);
const NONE = 255;

// --- an entry for each segment ---
const use = new Uint8Array(n), fill = new Float32Array(n), tier = new Uint8Array(n).fill(NONE);
const owner = new Int32Array(n).fill(-1);       // of a slab or a chunk: its entry in the list
const begins = new Uint8Array(n);               // 1: an extent begins
const counts = new Array(useNames.length).fill(0);
let at = 0, end = 0;                            // end: behind the last segment with memory
for (const [name, count] of map.uses) {
  const u = useNames.indexOf(name);
  use.fill(u, at, at + count);
  counts[u] += count;
  at += count;
  if (name !== 'uncommitted') end = at;
}
map.slabs.forEach(([first, count, c, pages], i) => {
  owner.fill(i, first, first + count);
  fill.fill(pages / map.classes[c][1], first, first + count);
});
map.chunks.forEach((c, i) => {
  if (c[1] === 0) return;
  const first = c[0] / leavesIn;
  owner.fill(i, first, first + c[1]);
  fill.fill(c[5] / c[4], first, first + c[1]);
});
const chunkOfTail = new Map();
map.chunks.forEach((c, i) => { if (c[3] >= 0) chunkOfTail.set(c[3], i); });
for (const [leaf, count, name] of map.portions)
  if (name === 'tail' || name === 'chunk') fill[Math.floor(leaf / leavesIn)] += count / leavesIn;
for (const [first, count, name] of map.tiers) tier.fill(tierNames.indexOf(name), first, first + count);
for (const [first] of map.extents) begins[first] = 1;

// --- texts ---
const number = x => x.toLocaleString('en');
const digits = x => x >= 100 || Number.isInteger(x) ? number(Math.round(x)) : x.toFixed(x >= 10 ? 1 : 2);
const size = b => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (b >= 1024 && u < 4) { b /= 1024; ++u; }
  return digits(b) + ' ' + units[u];
};
const percent = x => (100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0) + ' %';
const plural = (k, one, many) => number(k) + ' ' + (k === 1 ? one : many || one + 's');
// The index of the last entry of a list of runs that begins at or before `first`.
const lastBefore = (list, first) => {
  let low = 0, high = list.length;
  while (low < high) { const mid = (low + high) >> 1; if (list[mid][0] <= first) low = mid + 1; else high = mid; }
  return low - 1;
};
const portionsOf = i => {
  const found = [];
  let k = lastBefore(map.portions, i * leavesIn - 1) + 1;
  for (; k < map.portions.length && map.portions[k][0] < (i + 1) * leavesIn; ++k) found.push(map.portions[k]);
  return found;
};
const chunkText = c => {
  const held = c[1] * map.segment_bytes + c[2] * map.leaf_bytes;
  const parts = [c[1] ? plural(c[1], 'segment') : '', c[2] ? plural(c[2], 'leaf', 'leaves') : ''];
  return parts.filter(x => x).join(' and ') + '; ' + (c[6] === 'interleaved' ? 'interleaved arrays' : 'blocks') + ' of ' +
    plural(c[4], 'lane') + ', ' + number(c[5]) + ' not freed; ' + size(c[7]) + ' asked for, ' + size(held) + ' held';
};
const useTexts = {
  uncommitted: 'has no memory', free: 'free: has memory, and the host may hand it out',
  cached: 'waits in the device\'s segment cache', stored: 'waits in the device\'s chunk store',
  held: 'handed out, and neither in use nor waiting'
};
function describe(i) {
  const lines = ['segment ' + number(i) + ', ' + size(i * map.segment_bytes) + ' from the heap\'s first byte'];
  const name = useNames[use[i]];
  if (name === 'slab') {
    const [, , c, pages] = map.slabs[owner[i]];
    lines.push('slab of pages of ' + size(map.classes[c][0]) + ': ' + number(pages) + ' of ' +
      number(map.classes[c][1]) + ' pages in use (' + percent(fill[i]) + ')');
  } else if (name === 'chunk') {
    const c = map.chunks[owner[i]], first = c[0] / leavesIn;
    lines.push('chunk: ' + chunkText(c));
    lines.push(i === first ? 'its first segment' : 'segment ' + (i - first + 1) + ' of ' + c[1] +
      '; it begins at segment ' + number(first));
    if (c[2]) lines.push('its tail: leaf ' + c[3] % leavesIn + ' of segment ' + number(Math.floor(c[3] / leavesIn)));
  } else if (name === 'portions') {
    const all = portionsOf(i), leaves = all.reduce((sum, p) => sum + p[1], 0);
    lines.push(plural(all.length, 'portion') + ' in ' + leaves + ' of ' + leavesIn + ' leaves:');
    for (const [leaf, count, what] of all.slice(0, 12)) {
      const from = leaf % leavesIn, owns = chunkOfTail.get(leaf);
      let text = (count === 1 ? 'leaf ' + from : 'leaves ' + from + ' to ' + (from + count - 1)) + ': ';
      if (what === 'tail' && owns !== undefined)
        text += 'tail of the chunk at segment ' + number(map.chunks[owns][0] / leavesIn);
      else if (what === 'chunk' && owns !== undefined) text += 'a chunk: ' + chunkText(map.chunks[owns]);
      else text += { cached: 'waits in the segment cache', stored: 'waits in the chunk store' }[what] || what;
      lines.push(text);
    }
    if (all.length > 12) lines.push('and ' + (all.length - 12) + ' more');
  } else lines.push(useTexts[name]);
  if (tier[i] !== NONE) {
    const e = map.extents[lastBefore(map.extents, i)];
    lines.push('memory: ' + tierNames[tier[i]] + (e && i < e[0] + e[1]
      ? '; committed with segments ' + number(e[0]) + ' to ' + number(e[0] + e[1] - 1) + ' (' +
        size(e[1] * map.segment_bytes) + ')' : ''));
  }
  return lines.join('\n');
}

// --- tables ---
const cell = (row, text, key) => {
  const td = row.appendChild(document.createElement(row.parentNode.rows.length === 1 && key === null ? 'th' : 'td'));
  if (key) { const k = td.appendChild(document.createElement('span')); k.className = 'key'; k.style.background = key; }
  td.append(text);
  return td;
};
function table(id, header, rows) {
  const t = $(id);
  const first = t.insertRow();
  header.forEach(h => cell(first, h, null));
  for (const [key, ...texts] of rows) {
    const row = t.insertRow();
    texts.forEach((text, i) => cell(row, text, i === 0 ? key : undefined));
  }
  if (rows.length === 0) t.insertRow().insertCell().append('none');
}
const committed = n - counts[useNames.indexOf('uncommitted')];
table('totals', ['use', 'segments', 'size', 'of committed'], useNames.map((name, i) =>
  [colours.uses[name], name, number(counts[i]), size(counts[i] * map.segment_bytes),
    name === 'uncommitted' || committed === 0 ? '' : percent(counts[i] / committed)]).concat(
  [['', 'committed', number(committed), size(committed * map.segment_bytes), '']]));
const portionNames = { tail: 'tails of chunks', chunk: 'chunks below 2 MiB', cached: 'in the segment cache',
  stored: 'in the chunk store', held: 'held' };
table('portions', ['use', 'portions', 'size'], Object.keys(colours.portions).map(name => {
  const of = map.portions.filter(p => p[2] === name);
  return [colours.portions[name], portionNames[name], number(of.length),
    size(of.reduce((sum, p) => sum + p[1], 0) * map.leaf_bytes)];
}).filter(row => row[2] !== '0'));
table('memory', ['tier', 'segments', 'size'], tierNames.map(name => {
  const of = map.tiers.filter(t => t[2] === name).reduce((sum, t) => sum + t[1], 0);
  return [colours.tiers[name], name, number(of), size(of * map.segment_bytes)];
}).filter(row => row[2] !== '0').concat([['', 'commits', number(map.extents.length), '']]));
table('chunks', ['', 'chunks', 'lanes live', 'asked', 'held'], ['blocks', 'interleaved'].map(name => {
  const of = map.chunks.filter(c => c[6] === name), sum = f => of.reduce((s, c) => s + f(c), 0);
  return [name === 'blocks' ? colours.uses.chunk : colours.interleaved, name, number(of.length),
    number(sum(c => c[5])) + ' of ' + number(sum(c => c[4])), size(sum(c => c[7])),
    size(sum(c => c[1]) * map.segment_bytes + sum(c => c[2]) * map.leaf_bytes)];
}).filter(row => row[2] !== '0'));
{
  const by = new Map();
  for (const [, count, c, pages] of map.slabs) {
    const one = by.get(c) || [0, 0];
    by.set(c, [one[0] + count, one[1] + count * pages]);
  }
  const rows = [...by].sort((a, b) => a[0] - b[0]);
  table('classes', ['page', 'slabs', 'pages in use', 'fill'], rows.map(([c, [slabs, pages]]) => {
    const bar = document.createElement('span'), part = bar.appendChild(document.createElement('i'));
    const share = pages / (slabs * map.classes[c][1]);
    bar.className = 'bar';
    part.style.cssText = 'width:' + 100 * share + '%;background:' + colours.classes[c];
    bar.title = percent(share);
    return [colours.classes[c], size(map.classes[c][0]), number(slabs), number(pages), bar];
  }));
}
$('about').textContent = map.device + ', ' + map.backing + (map.policy === 'default' ? '' : ', ' + map.policy) +
  '; ' + plural(n, 'segment') + ' of ' + size(map.segment_bytes) + ' (' + size(n * map.segment_bytes) +
  ' of addresses), at most ' + size(map.capacity_bytes) + ' of memory; process ' + map.pid;
$(map.exact ? 'agrees' : 'differs').textContent = map.exact ? 'They agree with the heap\'s statistics.'
  : 'Kernels ran while this map was made: its parts are of different moments, and do not add up exactly.';

// --- the picture ---
const canvas = $('map_canvas'), place = $('place'), context = canvas.getContext('2d');
const left = 66;                                // CSS pixels for the addresses of rows
let ratio = 1, width = 0, height = 0, columns = 1, shown = 1;
let side = 1, x0 = 0, y0 = 0;                   // size of a segment and place of the first one, in device pixels
let fits = true;                                // all that is shown is in view, and stays so
let kept = -1, over = -1, mode = 'use', packed = new Uint32Array(n);
const rgb = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));
const css = c => 'rgb(' + c.map(Math.round).join(',') + ')';
const mix = (a, b, share) => a.map((v, i) => v + (b[i] - v) * share);
const white = [255, 255, 255], least = 0.2;
const useColours = useNames.map(name => rgb(colours.uses[name]));
const tierColours = tierNames.map(name => rgb(colours.tiers[name]));
const classColours = colours.classes.map(rgb), interleaved = rgb(colours.interleaved);
const SLAB = useNames.indexOf('slab'), CHUNK = useNames.indexOf('chunk'), PORTIONS = useNames.indexOf('portions');
const HOST = tierNames.indexOf('host');
const full = i => use[i] === SLAB ? classColours[map.slabs[owner[i]][2]]
  : use[i] === CHUNK && map.chunks[owner[i]][6] === 'interleaved' ? interleaved : useColours[use[i]];
const inUse = i => use[i] === SLAB || use[i] === CHUNK || use[i] === PORTIONS;
function colourOf(i) {
  if (mode === 'tier') return tier[i] === NONE ? useColours[0] : tierColours[tier[i]];
  if (mode === 'fill') return inUse(i) ? mix(rgb(colours.empty), rgb(colours.full), Math.min(1, fill[i]))
    : use[i] === 0 ? useColours[0] : [222, 222, 220];
  return inUse(i) ? mix(white, full(i), least + (1 - least) * Math.min(1, fill[i])) : useColours[use[i]];
}
function recolour() {
  const cache = new Map();                      // neighbours often have the same colour
  for (let i = 0; i < n; ++i) {
    const key = use[i] * 1e9 + tier[i] * 1e6 + Math.round(fill[i] * 1000) + (owner[i] < 0 ? 0 : use[i] === SLAB
      ? map.slabs[owner[i]][2] * 2000 : map.chunks[owner[i]][6] === 'interleaved' ? 2000 : 0);
    let c = cache.get(key);
    if (c === undefined) {
      const [r, g, b] = colourOf(i).map(Math.round);
      cache.set(key, c = (255 << 24 | b << 16 | g << 8 | r) >>> 0);
    }
    packed[i] = c;
  }
}
// Chooses the columns such that what is shown fills the canvas.
function fit() {
  shown = Math.max(1, $('whole').checked ? n : end);
  const w = width - left * ratio, h = height;
  columns = Math.max(1, Math.round(Math.sqrt(shown * w / h)));
  if (columns > 8) columns = Math.ceil(columns / 8) * 8;
  const rows = Math.ceil(shown / columns);
  side = Math.max(1, Math.min(w / columns, h / rows, 64 * ratio));
  x0 = left * ratio;
  y0 = 0;
  fits = true;
}
// Where segments are small: a colour for each pixel, so that the time depends on the canvas and not on the heap.
function drawPixels() {
  const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const column = new Int32Array(width);
  for (let x = 0; x < width; ++x) {
    const c = Math.floor((x - x0) / side);
    column[x] = c >= 0 && c < columns ? c : -1;
  }
  let before = -1;
  for (let y = 0; y < height; ++y) {
    const row = Math.floor((y - y0) / side), line = y * width;
    if (row < 0 || row * columns >= n) { pixels.fill(0xffffffff, line, line + width); before = -1; continue; }
    if (row === before) { pixels.copyWithin(line, line - width, line); continue; }
    const first = row * columns;
    for (let x = 0; x < width; ++x) {
      const i = first + column[x];
      pixels[line + x] = column[x] >= 0 && i < n ? packed[i] : 0xffffffff;
    }
    before = row;
  }
  context.putImageData(image, 0, 0);
}
function drawCells() {
  context.fillStyle = '#fff';
  context.fillRect(0, 0, width, height);
  const firstRow = Math.max(0, Math.floor(-y0 / side)), lastRow = Math.ceil((height - y0) / side);
  const firstColumn = Math.max(0, Math.floor((left * ratio - x0) / side) - 1);
  const lastColumn = Math.min(columns, Math.ceil((width - x0) / side));
  const gap = side >= 12 ? Math.max(1, Math.round(side / 24)) : 1, inner = side - gap;
  for (let r = firstRow; r < lastRow; ++r) {
    for (let c = firstColumn; c < lastColumn; ++c) {
      const i = r * columns + c;
      if (i >= n) break;
      const x = x0 + c * side, y = y0 + r * side;
      // The segments of one chunk are joined.
      const joined = use[i] === CHUNK && i + 1 < n && c + 1 < columns && use[i + 1] === CHUNK && owner[i + 1] === owner[i];
      const w = joined ? side : inner;
      if (mode !== 'use' || !inUse(i)) {
        context.fillStyle = css(colourOf(i));
        context.fillRect(x, y, w, inner);
      } else if (use[i] === PORTIONS) {
        context.fillStyle = css(mix(white, useColours[PORTIONS], least));
        context.fillRect(x, y, w, inner);
        for (const [leaf, count, name] of portionsOf(i)) {
          context.fillStyle = colours.portions[name];
          const from = leaf % leavesIn, seam = side >= 24 ? 1 : 0;
          context.fillRect(x + inner * from / leavesIn, y, Math.max(1, inner * count / leavesIn - seam), inner);
        }
        context.fillStyle = css(useColours[PORTIONS]);
        context.fillRect(x, y, w, Math.max(1, side / 12));
      } else {
        const colour = full(i), part = fill[i] > 0 ? Math.max(1, Math.round(inner * Math.min(1, fill[i]))) : 0;
        context.fillStyle = css(mix(white, colour, least));
        context.fillRect(x, y, w, inner);
        context.fillStyle = css(colour);
        context.fillRect(x, y + inner - part, w, part);
      }
      if (mode === 'use' && tier[i] === HOST) {
        context.fillStyle = colours.tiers.host;
        context.fillRect(x, y + inner - Math.max(1, side / 8), w, Math.max(1, side / 8));
      }
      if (begins[i] && side >= 10) {
        context.fillStyle = '#000';
        context.fillRect(x - gap, y, gap, inner);
      }
    }
  }
}
function drawRows() {
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, left * ratio, height);
  context.fillStyle = '#6b6b6b';
  context.font = 11 * ratio + 'px system-ui, "DejaVu Sans", sans-serif';
  context.textAlign = 'right';
  context.textBaseline = 'top';
  const step = Math.max(1, Math.ceil(15 * ratio / side));
  const first = Math.max(0, Math.floor(-y0 / side));
  for (let r = Math.ceil(first / step) * step; r * columns < n && y0 + r * side < height; r += step)
    context.fillText(size(r * columns * map.segment_bytes), (left - 6) * ratio, y0 + r * side);
}
function mark(i, colour) {
  if (i < 0) return;
  context.strokeStyle = colour;
  context.lineWidth = 2 * ratio;
  const s = Math.max(side, 6 * ratio);
  context.strokeRect(x0 + i % columns * side - ratio, y0 + Math.floor(i / columns) * side - ratio, s + ratio, s + ratio);
}
function draw() {
  if (side < 6) drawPixels(); else drawCells();
  drawRows();
  mark(over, '#000000');
  mark(kept, '#d4007f');
}
let asked = false;
function redraw() {
  if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); }
}
function resize() {
  ratio = window.devicePixelRatio || 1;
  width = canvas.width = Math.max(1, Math.round(place.clientWidth * ratio));
  height = canvas.height = Math.max(1, Math.round(place.clientHeight * ratio));
}
const clamp = () => {                            // after each move
  fits = false;
  const rows = Math.ceil(n / columns);
  x0 = Math.min(left * ratio + width / 2, Math.max(x0, width / 2 - columns * side));
  y0 = Math.min(height / 2, Math.max(y0, height / 2 - rows * side));
};
function zoom(factor, x, y) {
  const before = side;
  side = Math.min(256 * ratio, Math.max(0.5, side * factor));
  x0 = x - (x - x0) * side / before;
  y0 = y - (y - y0) * side / before;
  clamp();
  redraw();
}
function show(i, describes = true) {
  kept = i;
  if (describes) $('details').textContent = i < 0 ? 'Point at a segment.' : describe(i);
}
// Brings a segment into the middle, large enough for its details.
function go(i) {
  if (!(i >= 0 && i < n)) return;
  if (i >= end && !$('whole').checked) { $('whole').checked = true; fit(); }
  side = Math.max(side, 40 * ratio);
  x0 = width / 2 - i % columns * side;
  y0 = height / 2 - Math.floor(i / columns) * side;
  clamp();
  show(i);
  redraw();
}
const segmentAt = event => {
  const box = canvas.getBoundingClientRect();
  const c = Math.floor(((event.clientX - box.left) * ratio - x0) / side);
  const r = Math.floor(((event.clientY - box.top) * ratio - y0) / side), i = r * columns + c;
  return c >= 0 && c < columns && r >= 0 && i < n && event.clientX - box.left >= left ? i : -1;
};
let drag = null;
canvas.addEventListener('pointerdown', e => { drag = [e.clientX, e.clientY, x0, y0, false]; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener('pointerup', e => {
  if (drag && !drag[4]) {
    const i = segmentAt(e);
    show(i);
    history.replaceState(null, '', i < 0 ? location.pathname : '#segment=' + i);
    redraw();
  }
  drag = null;
});
canvas.addEventListener('pointermove', e => {
  if (drag) {
    const dx = e.clientX - drag[0], dy = e.clientY - drag[1];
    if (Math.abs(dx) + Math.abs(dy) > 4) drag[4] = true;
    if (drag[4]) { x0 = drag[2] + dx * ratio; y0 = drag[3] + dy * ratio; clamp(); }
  }
  over = segmentAt(e);
  const tip = $('tip');
  tip.style.display = over < 0 || drag && drag[4] ? 'none' : 'block';
  if (over >= 0) {
    const text = describe(over);
    tip.textContent = text;
    if (kept < 0) $('details').textContent = text;
    const box = place.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
    tip.style.left = Math.max(0, x + 14 + tip.offsetWidth > box.width ? x - 14 - tip.offsetWidth : x + 14) + 'px';
    tip.style.top = Math.max(0, y + 14 + tip.offsetHeight > box.height ? y - 14 - tip.offsetHeight : y + 14) + 'px';
  }
  redraw();
});
canvas.addEventListener('pointerleave', () => { over = -1; $('tip').style.display = 'none'; redraw(); });
canvas.addEventListener('wheel', e => {
  e.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(Math.exp(-e.deltaY / 400), (e.clientX - box.left) * ratio, (e.clientY - box.top) * ratio);
}, { passive: false });
const all = () => { fit(); redraw(); };
$('fit').onclick = all;
$('whole').onchange = all;
$('mode').onchange = () => { mode = $('mode').value; recolour(); redraw(); };
$('go').onchange = () => { const i = Number($('go').value); history.replaceState(null, '', '#segment=' + i); go(i); };
document.addEventListener('keydown', e => {
  if (e.target.tagName === 'INPUT' || e.target.tagName === 'SELECT' || e.ctrlKey || e.metaKey || e.altKey) return;
  const move = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
  if (e.key === '+' || e.key === '=') zoom(1.4, width / 2, height / 2);
  else if (e.key === '-') zoom(1 / 1.4, width / 2, height / 2);
  else if (e.key === '0') all();
  else if (e.key === 'Escape') { show(-1); redraw(); }
  else if (move) { x0 += move[0] * width / 8; y0 += move[1] * height / 8; clamp(); redraw(); }
  else return;
  e.preventDefault();
});
window.addEventListener('resize', () => { resize(); if (fits) fit(); redraw(); });
// `#segment=12`, `#mode=tier`, or both, joined by `&`.
function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (['fill', 'tier'].includes(wanted.get('mode'))) { mode = $('mode').value = wanted.get('mode'); recolour(); }
  if (wanted.get('segment')) go(Number(wanted.get('segment')));
}
window.addEventListener('hashchange', follow);
$('go').max = n - 1;
resize();
recolour();
fit();
follow();
draw();
document.documentElement.dataset.ready = '1';
)JS";

}  // namespace orchard::command_line
