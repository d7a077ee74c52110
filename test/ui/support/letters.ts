import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

/** How wide letters are, in percent of those of the tests. Fonts of systems differ by as much: DejaVu Sans is 15 % wider than others. */
const PERCENT = { usual: 100, wide: 115, widest: 130 } as const;
export type Letters = keyof typeof PERCENT;

/** The letters of the tests are two typefaces of packages: each machine has fonts of its own, or none. */
const FILES = {
  sans: import.meta.resolve('@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'),
  mono: import.meta.resolve('@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2'),
};
const TYPEFACES = Object.entries(FILES).map(([name, file]) => ({
  name,
  base64: readFileSync(new URL(file)).toString('base64'),
}));

/**
 * What a page runs before anything of its own, so that its letters are those of the tests, whatever the machine has. Fonts that a script
 * makes of bytes, and style sheets that it makes of text, are nothing that the content security policy is about.
 */
export function lettersScript(letters: Letters): string {
  return `(() => {
    const files = ${JSON.stringify(TYPEFACES)};
    const percents = ${JSON.stringify(PERCENT)};
    const sheet = new CSSStyleSheet();
    const take = (letters) =>
      sheet.replaceSync(':root:root { --sans: sans-' + letters + '; --mono: mono-' + letters + '; }');
    const isLoaded = new Set();
    const load = async (letters) => {
      if (isLoaded.has(letters)) return;
      isLoaded.add(letters);
      for (const { name, base64 } of files) {
        const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
        const options = { weight: '100 900', sizeAdjust: percents[letters] + '%' };
        const face = new FontFace(name + '-' + letters, bytes, options);
        document.fonts.add(face);
        await face.load();
      }
    };
    globalThis.setLetters = async (letters) => {
      await load(letters);
      take(letters);
    };
    load('${letters}');
    take('${letters}');
    document.adoptedStyleSheets.push(sheet);
  })();`;
}

/** Has a page with these letters take others. */
export async function setLetters(page: Page, letters: Letters): Promise<void> {
  await page.evaluate(`setLetters('${letters}')`);
}
