import type { CDPSession, Page } from 'playwright-core';
import * as z from 'zod';

/** What runs inside of a page to look at the list of clients: texts, since this program knows no document. */

/** Elements of the list that are there for rows, whether they show one or not. */
const ROWS = `[...document.querySelectorAll('[role=grid] [role=rowgroup] [role=row]')]`;
const SHOWN = `${ROWS}.filter((row) => !row.hidden)`;

const figures = z.object({ elements: z.number(), shown: z.number(), seen: z.number(), nodes: z.number() });

/** How many elements there are for rows, how many show one, how many of these are inside of the window, and nodes of the document. */
export async function listFigures(page: Page): Promise<z.infer<typeof figures>> {
  return figures.parse(
    await page.evaluate(`(() => {
      const seen = ${SHOWN}.filter((row) => {
        const { top, bottom } = row.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
      });
      return {
        elements: ${ROWS}.length,
        shown: ${SHOWN}.length,
        seen: seen.length,
        nodes: document.getElementsByTagName('*').length,
      };
    })()`),
  );
}

/** The sentence of the page that says who holds what, with plain spaces. */
export async function firstLine(page: Page): Promise<string> {
  const line = page.getByRole('heading', { level: 1 }).first();
  return ((await line.count()) === 0 ? '' : ((await line.textContent()) ?? '')).replaceAll('\u00a0', ' ').trim();
}

/** Names of the clients whose rows are there, from the top. */
export async function shownIds(page: Page): Promise<string[]> {
  const found = await page.evaluate(`${SHOWN}
    .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
    .map((row) => row.dataset.id).filter((id) => id)`);
  return z.array(z.string()).parse(found);
}

/** Marks the elements for rows; {@link markedRows} then tells how many of them are still those. */
export async function markRows(page: Page): Promise<void> {
  await page.evaluate(`for (const row of ${ROWS}) row.isMarked = true;`);
}

/** Elements for rows that bear the mark, and that do not. */
export async function markedRows(page: Page): Promise<{ marked: number; fresh: number }> {
  const found = await page.evaluate(`${ROWS}.reduce((sum, row) =>
    row.isMarked ? { ...sum, marked: sum.marked + 1 } : { ...sum, fresh: sum.fresh + 1 }, { marked: 0, fresh: 0 })`);
  return z.object({ marked: z.number(), fresh: z.number() }).parse(found);
}

/** Counts the rows that are touched in the document from now on; the result has the ids of their clients. */
export async function watchRows(page: Page): Promise<() => Promise<{ rows: string[]; changes: number }>> {
  await page.evaluate(`(() => {
    const rows = new Set();
    let changes = 0;
    const observer = new MutationObserver((records) => {
      for (const { target } of records) {
        const element = target instanceof Element ? target : target.parentElement;
        const row = element?.closest('[role=row]');
        if (!row) continue;
        rows.add(row.dataset.id ?? '');
        changes += 1;
      }
    });
    const list = document.querySelector('[role=grid] [role=rowgroup]');
    observer.observe(list, { subtree: true, childList: true, characterData: true, attributes: true });
    globalThis.rowsTouched = () => {
      observer.disconnect();
      return { rows: [...rows], changes };
    };
  })()`);
  return async () =>
    z.object({ rows: z.array(z.string()), changes: z.number() }).parse(await page.evaluate('rowsTouched()'));
}

const frames = z.object({ frames: z.array(z.number()), longTasks: z.array(z.number()) });

/**
 * Scrolls the window by `px` a frame, down and up again, for `count` frames. Answers the time from each frame to the next, and of each
 * task of more than 50 ms that the browser told of, in milliseconds.
 */
export async function scrollFrames(page: Page, { px, count }: { px: number; count: number }) {
  const found = await page.evaluate(`new Promise((done) => {
    const frames = [];
    const longTasks = [];
    const observer = new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) longTasks.push(duration);
    });
    observer.observe({ type: 'longtask' });
    let last;
    let step = ${px};
    const frame = (now) => {
      if (last !== undefined) frames.push(now - last);
      last = now;
      if (frames.length >= ${count}) {
        for (const { duration } of observer.takeRecords()) longTasks.push(duration);
        observer.disconnect();
        done({ frames, longTasks });
        return;
      }
      const bottom = document.documentElement.scrollHeight - innerHeight;
      if ((step > 0 && scrollY >= bottom) || (step < 0 && scrollY <= 0)) step = -step;
      scrollBy({ top: step, behavior: 'instant' });
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  })`);
  return frames.parse(found);
}

const paints = z.object({ firstPaint: z.number(), firstContent: z.number() });

/** When the page was first painted, in milliseconds since it was asked for. */
export async function paintTimes(page: Page): Promise<z.infer<typeof paints>> {
  return paints.parse(
    await page.evaluate(`(() => {
      const at = (name) => performance.getEntriesByName(name)[0]?.startTime ?? 0;
      return { firstPaint: at('first-paint'), firstContent: at('first-contentful-paint') };
    })()`),
  );
}

/** Bytes of the page and its files as they came, compressed; without what the server is asked for as data. */
export async function loadedBytes(page: Page): Promise<number> {
  const found =
    await page.evaluate(`[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .filter(({ initiatorType }) => ['navigation', 'script', 'link', 'css', 'img'].includes(initiatorType))
    .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`);
  return z.number().parse(found);
}

/** What a page uses, as the browser's own tools tell. */
export interface PageUse {
  /** Bytes of living objects of its scripts, after everything else was collected. */
  heapBytes(): Promise<number>;
  end(): Promise<void>;
}

const trace = z.object({
  traceEvents: z.array(
    z.object({
      name: z.string(),
      pid: z.number(),
      tid: z.number(),
      tdur: z.number().optional(),
      args: z.object({ name: z.string().optional() }).loose().optional(),
    }),
  ),
});

/**
 * The processor time of each task of the main threads of pages while `work` runs, in milliseconds: what else the machine does is not in
 * it.
 */
export async function taskTimes(page: Page, work: () => Promise<void>): Promise<number[]> {
  const browser = page.context().browser();
  if (browser === null) throw new Error('the page has no browser');
  await browser.startTracing(page, { categories: ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'] });
  await work();
  const { traceEvents } = trace.parse(JSON.parse((await browser.stopTracing()).toString()));
  const isMain = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  return traceEvents
    .filter(({ name, pid, tid }) => /RunTask$/.test(name) && isMain.has(`${pid} ${tid}`))
    .flatMap(({ tdur }) => (tdur === undefined ? [] : tdur / 1000));
}

const metrics = z.object({ metrics: z.array(z.object({ name: z.string(), value: z.number() })) });

/** Watches what a page uses. */
export async function pageUse(page: Page): Promise<PageUse> {
  const session: CDPSession = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const named = async (): Promise<Map<string, number>> => {
    const found = metrics.parse(await session.send('Performance.getMetrics'));
    return new Map(found.metrics.map(({ name, value }) => [name, value]));
  };
  return {
    async heapBytes() {
      await session.send('HeapProfiler.collectGarbage');
      await session.send('HeapProfiler.collectGarbage');
      return (await named()).get('JSHeapUsedSize') ?? 0;
    },
    end: () => session.detach(),
  };
}

/** Hides the tab, or shows it again, as a document is told: a headless browser has no window that could be hidden. */
export async function showTab(page: Page, isSeen: boolean): Promise<void> {
  await page.evaluate(`(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${!isSeen} });
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => '${isSeen ? 'visible' : 'hidden'}' });
    document.dispatchEvent(new Event('visibilitychange'));
  })()`);
}

/** Counts what is changed in the body of the document from now on. The result has what that was so far, in words. */
export async function watchBody(page: Page): Promise<() => Promise<string[]>> {
  await page.evaluate(`(() => {
    const changes = [];
    new MutationObserver((records) => {
      for (const { type, target } of records) {
        const element = target instanceof Element ? target : target.parentElement;
        changes.push(type + ' of ' + (element?.className || element?.tagName) + ': ' + target.textContent.slice(0, 60));
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
    globalThis.bodyChanges = changes;
  })()`);
  return async () => z.array(z.string()).parse(await page.evaluate('bodyChanges'));
}
