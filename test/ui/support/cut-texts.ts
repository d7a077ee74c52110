import type { Page } from 'playwright-core';
import * as z from 'zod';

/**
 * Texts of a page that cannot be read, in words: cut off by an element that does not scroll, without a title that has them in full; and
 * such that stand on one another; and icons that are cut off. What floats above the page (its header, the tools of the list) may cover what is below it.
 */
export async function cutTexts(page: Page): Promise<string[]> {
  return z.array(z.string()).parse(await page.evaluate(CUT_TEXTS));
}

/** Boxes of letters are higher than the letters. */
const SPARE_PX = { x: 1, y: 5 };

const CUT_TEXTS = `(() => {
  const plain = (text) => text.replaceAll(/\\s+/g, ' ').trim();
  const named = (element) => element.tagName.toLowerCase() + [...element.classList].map((name) => '.' + name).join('');
  const styles = new Map();
  const styleOf = (element) => {
    if (!styles.has(element)) {
      const { overflowX, contain, clipPath, position } = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      const left = box.left + element.clientLeft;
      const top = box.top + element.clientTop;
      styles.set(element, {
        scrolls: ['auto', 'scroll'].includes(overflowX),
        clips: ['hidden', 'clip'].includes(overflowX) || /strict|paint|content/.test(contain),
        isForEars: clipPath !== 'none',
        floats: position === 'fixed' || position === 'sticky',
        left, top, right: left + element.clientWidth, bottom: top + element.clientHeight,
      });
    }
    return styles.get(element);
  };
  const found = new Set();
  const seen = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode: node } = walker;
    const element = node.parentElement;
    const text = plain(node.data);
    if (text === '' || element.closest('script, style, select, noscript') || !element.checkVisibility({ visibilityProperty: true })) continue;
    const above = [];
    for (let one = element; one !== document.body; one = one.parentElement) above.push(one);
    if (above.some((one) => styleOf(one).isForEars)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const { left, top, right, bottom } of range.getClientRects()) {
      const rect = { left, top, right, bottom };
      let cutBy;
      for (const one of above) {
        const style = styleOf(one);
        if (!style.clips && !style.scrolls) continue;
        const isInside = style.left - ${SPARE_PX.x} <= rect.left && rect.right <= style.right + ${SPARE_PX.x} &&
          style.top - ${SPARE_PX.y} <= rect.top && rect.bottom <= style.bottom + ${SPARE_PX.y};
        if (!isInside && !style.scrolls) cutBy ??= one;
        rect.left = Math.max(rect.left, style.left);
        rect.right = Math.min(rect.right, style.right);
        rect.top = Math.max(rect.top, style.top);
        rect.bottom = Math.min(rect.bottom, style.bottom);
      }
      const title = plain(element.closest('[title]')?.title ?? '');
      if (cutBy !== undefined && !title.includes(text)) found.add(named(cutBy) + ' cuts off "' + text + '"');
      if (rect.right <= rect.left || rect.bottom <= rect.top) continue;
      if (rect.right > innerWidth + ${SPARE_PX.x}) {
        const scrolls = above.some((one) => styleOf(one).scrolls);
        if (!scrolls) found.add(named(element) + ' is beyond the edge: "' + text + '"');
      }
      if (!above.some((one) => styleOf(one).floats)) seen.push({ node, element, text, ...rect });
    }
  }
  for (const icon of document.querySelectorAll('svg.ic')) {
    if (!icon.checkVisibility({ visibilityProperty: true })) continue;
    const { left, right } = icon.getBoundingClientRect();
    for (let one = icon.parentElement; one !== document.body; one = one.parentElement) {
      const style = styleOf(one);
      if (style.scrolls || style.isForEars) break;
      if (style.clips && (left < style.left - ${SPARE_PX.x} || right > style.right + ${SPARE_PX.x}))
        found.add(named(one) + ' cuts off the icon of "' + plain(icon.parentElement.textContent) + '"');
    }
  }
  seen.sort((a, b) => a.top - b.top);
  for (const [index, one] of seen.entries()) {
    for (let next = index + 1; next < seen.length && seen[next].top < one.bottom - ${SPARE_PX.y}; next++) {
      const other = seen[next];
      if (other.node === one.node) continue;
      const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const height = Math.min(one.bottom, other.bottom) - other.top;
      if (width > ${SPARE_PX.x} && height > ${SPARE_PX.y})
        found.add(named(one.element) + ' "' + one.text + '" stands on ' + named(other.element) + ' "' + other.text + '"');
    }
  }
  return [...found];
})()`;
