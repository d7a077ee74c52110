interface Mark {
  readonly x: number;
  readonly text: string;
  /** Gives way to others: 99 % is often close to the last, which matters more. */
  readonly isMinor?: boolean;
}

/** The name of the mark that gives way. */
export const MINOR = '99 %';

/**
 * One caption for marks that are in the same place: `half, 99 % 12 ms`, and `all` where nothing
 * lies between the first and the last.
 */
export function merged(marks: readonly { x: number; name: string; time: string }[]): Mark[] {
  const places = new Map<string, { x: number; names: string[]; time: string }>();
  for (const { x, name, time } of marks) {
    const key = `${Math.round(x)} ${time}`;
    const place = places.get(key);
    if (place === undefined) places.set(key, { x, names: [name], time });
    else place.names.push(name);
  }
  return [...places.values()].map(({ x, names, time }) => ({
    x,
    isMinor: names.every((name) => name === MINOR),
    text: `${names.includes('first') && names.includes('last') ? 'all' : names.join(', ')} ${time}`,
  }));
}

export interface PlacedCaption extends Mark {
  readonly anchor: 'start' | 'end';
  /** 0: just above the chart; 1: one line higher. */
  readonly lane: 0 | 1;
}

/** Pixels of a sign of a caption, and between two captions. */
const SIGN = 6;
const GAP = 10;
const LANES = [0, 1] as const;

/**
 * Puts captions at marks so that none covers another, in two lines, to the right of the mark or to
 * its left; one without room is left out.
 */
export function placedCaptions(
  marks: readonly Mark[],
  { left, right }: { readonly left: number; readonly right: number },
): PlacedCaption[] {
  const placed: (PlacedCaption & { readonly from: number; readonly to: number })[] = [];
  const order = [...marks.keys()].sort((one, other) => weight(marks[one]) - weight(marks[other]));
  for (const index of order) {
    const mark = marks[index];
    if (mark === undefined) continue;
    const width = mark.text.length * SIGN + 4;
    const options = LANES.flatMap((lane) =>
      (['start', 'end'] as const).map((anchor) => ({
        ...mark,
        anchor,
        lane,
        from: anchor === 'start' ? mark.x : mark.x - width,
        to: anchor === 'start' ? mark.x + width : mark.x,
      })),
    );
    const found = options.find(
      ({ from, to, lane }) =>
        from >= left - 4 &&
        to <= right + 12 &&
        placed.every((other) => other.lane !== lane || from > other.to + GAP || to < other.from - GAP),
    );
    if (found !== undefined) placed.push(found);
  }
  return placed.sort((one, other) => one.x - other.x).map(({ x, text, anchor, lane }) => ({ x, text, anchor, lane }));
}

function weight(mark: Mark | undefined): number {
  return mark?.isMinor === true ? 1 : 0;
}
