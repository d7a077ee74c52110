import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { Logger } from '../../lib/observe/log.js';

/**
 * What the live entries of a log take in the memory of a server, about, and what there is for them.
 */
export interface LogMemory {
  readonly entries: number;
  readonly bytes: number;
  readonly limitBytes: number;
  readonly fit: MemoryFit;
}

/**
 * `tight`: most of it is taken. `exceeds`: there is less than they take, and the server may end at
 * any time.
 */
export type MemoryFit = 'fits' | 'tight' | 'exceeds';

/**
 * What is live: entries, the topics that have had an update, and characters of inline data; and the
 * deletions that have ended, but are kept.
 */
export interface LiveSize {
  readonly entries: number;
  readonly ended: number;
  readonly topics: number;
  readonly chars: number;
}

/**
 * Of an entry beside its text and of a topic, with what a reader of the fold leaves at them;
 * `entry-memory.test.ts` measures less.
 */
const ENTRY_BYTES = 900;
const TOPIC_BYTES = 400;
/** From this part on it is tight, and until below that it stays so. */
const TIGHT = { from: 0.7, until: 0.6 };
const MIB = 1024 * 1024;
/** What a server takes without entries: of its heap, and of the memory of the process. */
const REST = { heapBytes: 32 * MIB, processBytes: 128 * MIB };

/** What the process may have: its heap, and all of it. */
export interface ProcessLimits {
  readonly heapBytes: number;
  readonly processBytes: number;
}

/** The limits of this process; a container has one of its own. */
export function processLimits(): ProcessLimits {
  const machine = totalmem();
  const given = process.constrainedMemory(); // 0, or more than there is: no limit
  return {
    heapBytes: getHeapStatistics().heap_size_limit,
    processBytes: given > 0 && given < machine ? given : machine,
  };
}

/** What of the limits is there for live entries. Pure. */
export function roomFor({ heapBytes, processBytes }: ProcessLimits): number {
  return Math.max(1, Math.min(heapBytes - REST.heapBytes, processBytes - REST.processBytes));
}

/** What live entries take. Pure. */
export function bytesOf({ entries, ended, topics, chars }: LiveSize): number {
  return (entries + ended) * ENTRY_BYTES + topics * TOPIC_BYTES + chars;
}

/** Whether so much fits, after what was so before. Pure. */
export function fitOf(bytes: number, limitBytes: number, before: MemoryFit): MemoryFit {
  const share = bytes / limitBytes;
  if (share >= 1) return 'exceeds';
  return share >= (before === 'fits' ? TIGHT.from : TIGHT.until) ? 'tight' : 'fits';
}

const SAID = {
  fits: ['info', 'the live entries of the update log fit the memory of this server again'],
  tight: [
    'warn',
    'the live entries of the update log take most of the memory that this server has for them; give it more, or publish fewer and larger documents',
  ],
  exceeds: [
    'error',
    'the live entries of the update log need more memory than this server has for them: it may end, also at its next start; give it more',
  ],
} as const;

/**
 * Knows whether the live entries fit the memory of the process, and says so while the log is
 * loaded, too: nobody can ask then.
 */
export class MemoryWatch {
  readonly #limitBytes: number;
  readonly #log: Pick<Logger, 'info' | 'warn' | 'error'>;
  #fit: MemoryFit = 'fits';
  #size: LiveSize = { entries: 0, ended: 0, topics: 0, chars: 0 };

  constructor(limits: ProcessLimits, log: Pick<Logger, 'info' | 'warn' | 'error'>) {
    this.#limitBytes = roomFor(limits);
    this.#log = log;
  }

  get status(): LogMemory {
    const { entries } = this.#size;
    return { entries, bytes: bytesOf(this.#size), limitBytes: this.#limitBytes, fit: this.#fit };
  }

  /** Takes what is live now. */
  look(size: LiveSize): void {
    this.#size = size;
    const before = this.#fit;
    this.#fit = fitOf(bytesOf(size), this.#limitBytes, before);
    if (this.#fit === before) return;
    const [level, text] = SAID[this.#fit];
    const { entries, bytes, limitBytes } = this.status;
    this.#log[level]({ entries, bytes, limit_bytes: limitBytes }, text);
  }
}
