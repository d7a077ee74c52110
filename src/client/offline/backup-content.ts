import { docPathUrl } from '../../wire/doc-path.js';
import { entryConcerns, type KnownEntry } from '../desired/entry-table.js';
import { type Layer, onlyRemoves, STATIC_ERA } from '../desired/layers.js';
import { staticLayers } from '../desired/policy-content.js';
import type { PolicyEngine, Seal } from '../engine/engine.js';
import type { ClientSettings } from '../options.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { EngineContent, EngineCopy } from '../reconcile/engine-copy.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';
import { outermostDirectories } from '../topics.js';
import type { BackupContent, BackupDocument, BackupEntry } from './backup-format.js';

/** The parts of a client whose state is backed up. */
export interface BackedUpParts {
  readonly engine: Pick<PolicyEngine, 'seals'>;
  readonly held: EngineCopy;
  readonly policy: PolicyUpdater;
  readonly data: DataUpdater;
}

/** The settings that select the wanted parts of a backup. */
export type BackupSettings = Pick<
  ClientSettings,
  'policyUpdaterEnabled' | 'dataUpdaterEnabled' | 'dataTopics' | 'policyDirs' | 'scopeId'
>;

/** The content of the client at one moment. */
export interface Captured {
  readonly content: BackupContent;
  /**
   * `EngineSeals.writes` at that moment; undefined if the engine may not hold exactly this content.
   */
  readonly writes: number | undefined;
}

/**
 * Captures the content of the client. Call it between two engine steps. The client owns the bodies:
 * pin them.
 */
export function captureContent({ engine, held, policy, data }: BackedUpParts, settings: BackupSettings): Captured {
  const documents: BackupDocument[] = [];
  // A policy that has just gone in is not yet what its updater holds.
  let isExact = held.isCertain && held.policy?.modules === policy.held?.modules;
  const add = (layer: Layer, blocked: string | undefined): void => {
    const known = data.entry(layer.id);
    // Static data come from the policy part; a layer without an entry is about to be removed,
    // unless it never had one.
    if (layer.rank.era === STATIC_ERA) return;
    if (known === undefined && layer.rank.era > STATIC_ERA) {
      isExact = false;
      return;
    }
    documents.push({ layer, blocked, entry: known === undefined ? undefined : entryOf(known, layer) });
  };
  for (const layer of held.layers.all()) add(layer, undefined);
  for (const { layer, reason } of held.blocked.values()) add(layer, reason);
  const { position } = data;
  const content = {
    createdMs: Date.now(),
    directories: outermostDirectories(settings.policyDirs),
    scope: settings.scopeId,
    policy: policy.held,
    position: { ...position, seen: new Map(position.seen) },
    documents,
  };
  return { content, writes: isExact ? engine.seals?.writes : undefined };
}

function entryOf({ origin, epoch, entry, fetched }: KnownEntry, { content }: Layer): BackupEntry {
  // A newer document may have been fetched that the engine does not hold yet: its validators do not
  // belong to the layer.
  const isOfLayer = content.kind !== 'put' || content.body.hash === fetched?.hash;
  return {
    origin,
    epoch,
    saveMethod: entry.save_method,
    topics: entry.topics,
    fetched: isOfLayer ? fetched : undefined,
  };
}

/** Keeps the bytes of all documents until the returned function is called. */
export function pinDocuments(documents: readonly BackupDocument[]): () => Promise<void> {
  const pins = documents.flatMap(({ layer: { content } }) => {
    const release = content.kind === 'put' ? content.body.pin?.() : undefined;
    return release === undefined ? [] : [release];
  });
  return async () => {
    for (const release of pins) await release();
  };
}

/**
 * Returns the part of a backup that a client with these settings should hold: topics and updaters
 * may have changed since. `unused`: the documents that are left out.
 */
export function wantedContent(
  content: BackupContent,
  settings: BackupSettings,
): { wanted: BackupContent; unused: readonly BackupDocument[] } {
  const topics = new Set(settings.dataTopics);
  const isWanted = ({ entry }: BackupDocument): boolean =>
    settings.dataUpdaterEnabled && (entry === undefined || entryConcerns({ topics: [...entry.topics] }, topics));
  return {
    wanted: {
      ...content,
      policy: settings.policyUpdaterEnabled ? content.policy : undefined,
      documents: content.documents.filter(isWanted),
    },
    unused: content.documents.filter((document) => !isWanted(document)),
  };
}

/** Returns the seal of an engine that holds this backup; undefined for a backup without an id. */
export function sealOf({ id, position }: Pick<BackupContent, 'id' | 'position'>): Seal | undefined {
  if (id === undefined) return undefined;
  return { backup: id, epoch: position.log?.epoch ?? null, seq: position.log?.applied_through ?? null };
}

/**
 * Converts a backup for {@link Applier.load}. Throws `engine_refused` for an unusable static
 * document.
 */
export function loadableContent({ policy, documents }: BackupContent): EngineContent {
  const statics = policy === undefined ? [] : staticLayers(policy);
  const held = documents.filter(({ blocked }) => blocked === undefined).map(({ layer }) => layer);
  return {
    policy: policy === undefined ? undefined : { hash: policy.hash, modules: policy.modules },
    layers: [...statics, ...held],
    blocked: documents.flatMap(({ layer, blocked }) => (blocked === undefined ? [] : [{ layer, reason: blocked }])),
  };
}

/** Lets the updaters continue from the content that the engine was loaded with. */
export function adoptContent(content: BackupContent, { policy, data }: BackedUpParts, settings: BackupSettings): void {
  const { directories, scope, policy: held } = content;
  if (held !== undefined) {
    const own = outermostDirectories(settings.policyDirs);
    const isSame = scope === settings.scopeId && [...directories].sort().join(':') === [...own].sort().join(':');
    policy.adopt(held, isSame && held.hash !== '');
  }
  data.adopt(
    content.position,
    content.documents.flatMap((document) =>
      document.entry === undefined ? [] : [knownEntry(document, document.entry)],
    ),
  );
  data.policyChanged(); // the engine may have refused documents
}

function knownEntry({ layer, blocked }: BackupDocument, entry: BackupEntry): KnownEntry {
  return {
    id: layer.id,
    path: layer.path,
    rank: layer.rank,
    nextRank: undefined,
    origin: entry.origin,
    epoch: entry.epoch,
    entry: {
      ...{ url: '', topics: [...entry.topics], dst_path: docPathUrl(layer.path), save_method: entry.saveMethod },
      ...(onlyRemoves(layer) && { only_removes: true }),
    },
    transaction: '',
    state: blocked === undefined ? { kind: 'applied' } : { kind: 'blocked', error: blocked },
    fetched: entry.fetched,
  };
}
