import { eventText } from '../../http/event-stream.js';
import type { FleetChange, FleetDelta, FleetSnapshot, FleetSummary } from '../../wire/fleet.js';
import { withoutPublisher } from './change-rules.js';
import type { RowEntry } from './rows.js';

/** Part of an event, with its rows as they are printed already. */
export type DeltaParts = Omit<FleetDelta, 'clients'> & { readonly rows?: readonly RowEntry[] };
export type SnapshotParts = Omit<FleetSnapshot, 'clients'> & { readonly rows: Iterable<RowEntry> };

/** One event of the stream, as it is sent: printed once for all who watch with the same right. */
export class FeedEvent {
  readonly #name: 'snapshot' | 'delta';
  readonly #parts: DeltaParts | SnapshotParts;
  readonly #id: (seesPublisher: boolean) => string;
  readonly #frames = new Map<boolean, Buffer>();

  constructor(name: 'snapshot' | 'delta', parts: DeltaParts | SnapshotParts, id: (seesPublisher: boolean) => string) {
    this.#name = name;
    this.#parts = parts;
    this.#id = id;
  }

  /** The event as `text/event-stream`. `seesPublisher`: it names who published, and why. */
  frame(seesPublisher: boolean): Buffer {
    const known = this.#frames.get(seesPublisher);
    if (known !== undefined) return known;
    const frame = Buffer.from(eventText(this.#name, print(this.#parts, seesPublisher), this.#id(seesPublisher)));
    this.#frames.set(seesPublisher, frame);
    return frame;
  }
}

function print({ rows, summary, changes, ...rest }: DeltaParts | SnapshotParts, seesPublisher: boolean): string {
  const show = (change: FleetChange): FleetChange => (seesPublisher ? change : withoutPublisher(change));
  const shownSummary: FleetSummary | undefined = summary && {
    ...summary,
    under_way: summary.under_way && show(summary.under_way),
  };
  const text = JSON.stringify({
    ...rest,
    ...(shownSummary !== undefined && { summary: shownSummary }),
    ...(changes !== undefined && { changes: changes.map(show) }),
  });
  if (rows === undefined) return text;
  const clients = [...rows].map((entry) => entry.text).join(',');
  return `${text.slice(0, -1)},"clients":[${clients}]}`;
}
