import { parseArgs } from 'node:util';
import type { BackboneKind } from '../support/backbone-servers.js';

/** What is run. */
export interface RunOptions {
  readonly seed: number;
  /** Time with faults; start, healing and judging come to it. */
  readonly seconds: number;
  /** The run goes on until so many faults came, whatever its time. */
  readonly faults: number | undefined;
  readonly clients: number;
  /** Subscribers without engines, beside the clients. */
  readonly subscribers: number;
  readonly instances: number;
  readonly backbone: BackboneKind | undefined;
  /** The engine of the clients; `both`: the first two have it embedded, the others an inline one. */
  readonly engine: 'inline' | 'embedded' | 'both';
  /** The parts that faults happen to; servers and clients are left alone with `backbone`. */
  readonly only: 'all' | 'backbone';
  /** Keep timeline and logs of a run without failures, too. */
  readonly keep: boolean;
  /** Print the timeline as it happens. */
  readonly verbose: boolean;
}

const MOST_CLIENTS = 3;
const SHORT_SECONDS = 12;
const LONG_SECONDS = 30 * 60;
const BACKBONES: Readonly<Record<string, BackboneKind>> = { postgres: 'Postgres', redis: 'Redis', nats: 'NATS' };

/** The options of a command line (docs/internals/faults.md); a text says what is wrong with it. */
export function readOptions(args: string[], env: NodeJS.ProcessEnv): RunOptions | string {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string' },
      seconds: { type: 'string' },
      minutes: { type: 'string' },
      faults: { type: 'string' },
      clients: { type: 'string', default: String(MOST_CLIENTS) },
      subscribers: { type: 'string', default: '0' },
      long: { type: 'boolean', default: env.SYNC_TEST_LONG === '1' },
      instances: { type: 'string' },
      backbone: { type: 'string' },
      engine: { type: 'string', default: 'inline' },
      only: { type: 'string', default: 'all' },
      keep: { type: 'boolean', default: false },
      verbose: { type: 'boolean', default: false },
    },
  });
  const backbone = values.backbone === undefined ? undefined : BACKBONES[values.backbone];
  if (values.backbone !== undefined && backbone === undefined)
    return `--backbone is one of ${Object.keys(BACKBONES).join(', ')}`;
  const { engine } = values;
  if (engine !== 'inline' && engine !== 'embedded' && engine !== 'both')
    return '--engine is one of inline, embedded, both';
  const { only } = values;
  if (only !== 'all' && only !== 'backbone') return '--only is backbone, or left out';
  if (only === 'backbone' && backbone === undefined) return '--only backbone needs a --backbone';
  const seed = Number(values.seed ?? Math.floor(Math.random() * 1_000_000));
  const given = values.minutes !== undefined ? Number(values.minutes) * 60 : Number(values.seconds ?? Number.NaN);
  const isGiven = values.minutes !== undefined || values.seconds !== undefined;
  const seconds = isGiven ? given : values.long ? LONG_SECONDS : SHORT_SECONDS;
  const instances = Number(values.instances ?? (backbone === undefined ? 1 : 2));
  const faults = values.faults === undefined ? undefined : Number(values.faults);
  const clients = Number(values.clients);
  if (![seed, seconds, instances, faults ?? 0].every((value) => Number.isFinite(value) && value >= 0) || instances < 1)
    return '--seed, --seconds, --minutes, --faults and --instances take numbers';
  if (!Number.isInteger(clients) || clients < 1 || clients > MOST_CLIENTS) return `--clients is 1 to ${MOST_CLIENTS}`;
  const subscribers = Number(values.subscribers);
  if (!Number.isInteger(subscribers) || subscribers < 0) return '--subscribers is a whole number, 0 for none';
  if (instances > 1 && backbone === undefined) return '--instances above 1 needs a --backbone';
  const { keep, verbose } = values;
  return { seed, seconds, faults, clients, subscribers, instances, backbone, engine, only, keep, verbose };
}
