const CHAR_WIDTH = 8.43;
const LINE_HEIGHT = 20;
const PADDING = 20;
const BAR = 34;

/**
 * An SVG of a terminal that shows one frame after the other, over and over: `{ title, text, seconds }`. It needs no script and no font
 * from elsewhere, so it moves in an <img>, too. For those who want no motion it shows the last frame.
 */
export function framesAsSvg(command, frames) {
  const lines = frames.map(({ title, text }) => [`# ${title}`, `$ ${command}`, ...text.split('\n')]);
  const columns = Math.max(...lines.flat().map(({ length }) => length));
  const rows = Math.max(...lines.map(({ length }) => length));
  const width = Math.ceil(columns * CHAR_WIDTH + 2 * PADDING);
  const height = BAR + rows * LINE_HEIGHT + PADDING;
  const total = frames.reduce((sum, { seconds }) => sum + seconds, 0);
  let start = 0;
  const steps = frames.map(({ seconds }, index) => {
    const [from, to] = [start / total, (start + seconds) / total].map((share) => Number((share * 100).toFixed(2)));
    start += seconds;
    return `@keyframes f${index}{${keyframes(from, to)}}.f${index}{animation:f${index} ${total}s step-end infinite}`;
  });
  const still = frames.map((_, index) => `.f${index}{animation:none;opacity:${index === frames.length - 1 ? 1 : 0}}`);
  const groups = lines.map((frame, index) => `<g class="f${index}">${frame.map(line).join('')}</g>`);
  const label = frames.map(({ title }) => title).join('; then: ');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(`${command}: ${label}`)}">
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}.c{fill:#8b949e}.b{fill:#d29922}${steps.join('')}@media (prefers-reduced-motion:reduce){${still.join('')}}</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>
<circle cx="20" cy="17" r="6" fill="#ff5f57"/><circle cx="40" cy="17" r="6" fill="#febc2e"/><circle cx="60" cy="17" r="6" fill="#28c840"/>
${groups.join('\n')}
</svg>
`;
}

function keyframes(from, to) {
  const shown = `${from}%{opacity:1}${to === 100 ? '' : `${to}%{opacity:0}`}`;
  return from === 0 ? shown : `0%{opacity:0}${shown}`;
}

function line(text, row) {
  const kind = text.startsWith('# ')
    ? ' class="c"'
    : /\b(wants|away)\b|\s(policy|data)$/.test(text)
      ? ' class="b"'
      : '';
  const width = (text.length * CHAR_WIDTH).toFixed(1);
  const length = text === '' ? '' : ` textLength="${width}" lengthAdjust="spacing"`;
  return `<text x="${PADDING}" y="${BAR + (row + 1) * LINE_HEIGHT - 4}"${kind}${length}>${escaped(text)}</text>`;
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
