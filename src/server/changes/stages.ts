import type { ChangeMemory, CommitStage, TraceMemory, UpdateStage } from './change-times.js';

/** What happened to a change here. Each instrument takes what it measures or remembers. */
export type ChangeStage =
  /** The call of a publisher has ended. */
  | { readonly of: 'publish'; readonly outcome: 'ok' | 'refused' | 'failed'; readonly tookMs: number }
  /** One publication, of an update or of a commit, was handed to the sockets of its subscribers. */
  | { readonly of: 'delivery'; readonly subscribers: number; readonly tookMs: number }
  /** A connected client has applied an update, so long after its append. */
  | { readonly of: 'apply'; readonly tookMs: number }
  /** `id`: seq; `atMs`: since 1970. */
  | {
      readonly of: 'update';
      readonly id: number;
      readonly name: UpdateStage;
      readonly atMs: number;
      readonly about?: Pick<ChangeMemory<UpdateStage>, 'subscribers' | 'id'>;
    }
  /** `id`: hash; `atMs`: since 1970. */
  | {
      readonly of: 'commit';
      readonly id: string;
      readonly name: CommitStage;
      readonly atMs: number;
      readonly about?: Pick<ChangeMemory<CommitStage>, 'topics'>;
    };

/** Tells the instruments of a server; costs less than a few microseconds. */
export type StageFeed = (stage: ChangeStage) => void;

/** Where publications go: the hub. Returns the number of connections that got this one. */
interface Delivery<P> {
  publish(publication: P): number;
}

/** Hands a publication to the sockets of its subscribers. */
export function deliver<P>(hub: Delivery<P>, publication: P, feed: StageFeed): number {
  const startedMs = performance.now();
  const subscribers = hub.publish(publication);
  feed({ of: 'delivery', subscribers, tookMs: performance.now() - startedMs });
  return subscribers;
}

/** Remembers when changes came how far. */
export function rememberStage({ updates, commits }: TraceMemory, stage: ChangeStage): void {
  if (stage.of === 'update') updates.reached(stage.id, stage.name, stage.atMs, stage.about);
  if (stage.of === 'commit') commits.reached(stage.id, stage.name, stage.atMs, stage.about);
}
