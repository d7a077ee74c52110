import * as z from 'zod';
import { docPathPointer } from '../../wire/doc-path.js';
import type { PatchOp } from '../../wire/json-patch.js';
import type { KnownEntry } from '../desired/entry-table.js';
import { type Layer, onlyRemoves } from '../desired/layers.js';
import type { PolicyContent } from '../desired/policy-content.js';
import type { DataPosition } from '../reconcile/log-cursor.js';

/**
 * Our backup file: one JSON document whose members stand in a fixed order, each on lines of its
 * own, so that it is written and read as a stream; documents stand in it byte for byte as they were
 * fetched (design D33).
 *
 *     {"format":"policysync-backup","version":1,"header":{...},
 *     "policy":{...},
 *     "documents":[
 *     <document>,
 *     <document>
 *     ],
 *     "checksum":"<hex SHA-256 of all bytes before this line>"}
 *
 * The header lists the documents in order with their sizes and hashes, and has no header values of
 * data sources, nor their URLs, which may carry credentials.
 */
export const BACKUP_VERSION = 1;

/** The start of every file of this format; the version follows. */
export const BACKUP_START = '{"format":"policysync-backup","version":';

export const POLICY_START = '"policy":';
export const DOCUMENTS_START = ',\n"documents":[\n';
export const DOCUMENT_SEPARATOR = ',\n';
export const DOCUMENTS_END = '\n],\n';

/** The last line. */
export function checksumLine(hex: string): string {
  return `"checksum":"${hex}"}\n`;
}

/** One layer of the engine's documents, except static ones, with the identity of its entry. */
export interface BackupDocument {
  readonly layer: Layer;
  /** Why the engine refuses it; undefined if the engine holds it. */
  readonly blocked: string | undefined;
  /** Undefined for a document of another program's backup: no entry is known for it. */
  readonly entry: BackupEntry | undefined;
}

/** An entry without its source. */
export interface BackupEntry extends Pick<KnownEntry, 'origin' | 'epoch' | 'fetched'> {
  readonly saveMethod: KnownEntry['entry']['save_method'];
  readonly topics: readonly string[];
}

/** The content of a backup. */
export interface BackupContent {
  /** Id of this file; undefined in files of earlier versions, and until it is written. */
  readonly id?: string | undefined;
  readonly createdMs: number;
  /** The directories and the scope that the policy was made for. */
  readonly directories: readonly string[];
  readonly scope: string;
  /**
   * Modules in load order and static data, with the commit hash; the hash is empty where it is not
   * known.
   */
  readonly policy: PolicyContent | undefined;
  readonly position: DataPosition;
  readonly documents: readonly BackupDocument[];
}

const count = z.number().int();
const rank = z.tuple([count, count, count]);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** The header of the file: everything but policy and documents. */
export const backupHeader = z.strictObject({
  id: z.string().optional(),
  created: z.iso.datetime(),
  directories: z.array(z.string()),
  scope: z.string(),
  policy_size: count.nonnegative(),
  position: z.strictObject({
    epoch: z.string().nullable(),
    /** Distinguishes the entries of that log; absent in files of earlier versions. */
    name: z.string().optional(),
    era: count,
    next: count,
    last_seq: count,
    /** Base entries as they were fetched last: id, hash, rank. */
    seen: z.array(z.tuple([z.string(), z.string(), rank])),
    /** How far it was in the log (design D20); a file without it is of an earlier version. */
    log: z
      .strictObject({
        epoch: z.string(),
        topics: z.array(z.string()),
        applied_through: count.nonnegative(),
        applied_beyond: z.array(count),
        unresolved: z.array(count),
      })
      .optional(),
  }),
  documents: z.array(
    z.strictObject({
      id: z.string(),
      path: z.array(z.string()),
      rank,
      kind: z.enum(['put', 'patch', 'delete']),
      /** Pointers to objects of the document that go with their last member. */
      implied: z.array(z.string()).optional(),
      /** A deletion that leaves static data as they are. */
      only_removes: z.literal(true).optional(),
      size: count.nonnegative(),
      hash: sha256.nullable(),
      blocked: z.string().nullable(),
      entry: z
        .strictObject({
          origin: z.enum(['base', 'update']),
          epoch: z.string().nullable(),
          save_method: z.enum(['PUT', 'PATCH', 'DELETE']),
          topics: z.array(z.string()),
          fetched: z
            .strictObject({ hash: z.string(), etag: z.string().optional(), last_modified: z.string().optional() })
            .nullable(),
        })
        .nullable(),
    }),
  ),
});
export type BackupHeader = z.infer<typeof backupHeader>;

/** The policy part. */
export const backupPolicy = z
  .strictObject({
    hash: z.string(),
    modules: z.array(z.tuple([z.string(), z.string()])),
    data: z.array(z.strictObject({ folder: z.string(), text: z.string() })),
  })
  .nullable();

/**
 * Returns the text of a layer among the documents; undefined for a whole body, which is copied
 * unchanged.
 */
export function layerText({ content }: Layer): string | undefined {
  switch (content.kind) {
    case 'put':
      return undefined;
    case 'delete':
      return 'null';
    case 'patch':
      return `[${content.ops.map(opText).join(',')}]`;
  }
}

function opText(op: PatchOp): string {
  const head = `{"op":${JSON.stringify(op.op)},"path":${JSON.stringify(docPathPointer(op.path))}`;
  switch (op.op) {
    case 'remove':
      return `${head}}`;
    case 'move':
    case 'copy':
      return `${head},"from":${JSON.stringify(docPathPointer(op.from))}}`;
    default:
      return `${head},"value":${op.value.text}}`;
  }
}

/** The text of the policy part. */
export function policyText(policy: PolicyContent | undefined): string {
  if (policy === undefined) return 'null';
  return JSON.stringify({ hash: policy.hash, modules: [...policy.modules], data: policy.data });
}

/**
 * Returns the header of a content; `policySize` in bytes. Its JSON text omits undefined members.
 */
export function headerOf(content: BackupContent, policySize: number): BackupHeader {
  const { position } = content;
  return {
    id: content.id,
    created: new Date(content.createdMs).toISOString(),
    directories: [...content.directories],
    scope: content.scope,
    policy_size: policySize,
    position: {
      epoch: position.epoch ?? null,
      name: position.name,
      era: position.era,
      next: position.next,
      last_seq: position.lastSeq,
      seen: [...position.seen].map(([id, seen]) => [id, seen.hash, [seen.rank.era, seen.rank.seq, seen.rank.index]]),
      log: position.log === undefined ? undefined : { ...position.log, topics: [...position.log.topics] },
    },
    documents: content.documents.map(({ layer, blocked, entry }) => {
      const text = layerText(layer);
      const body = layer.content.kind === 'put' ? layer.content.body : undefined;
      const fetched = entry?.fetched;
      return {
        id: layer.id,
        path: [...layer.path],
        rank: [layer.rank.era, layer.rank.seq, layer.rank.index],
        kind: layer.content.kind,
        implied: layer.content.kind === 'put' ? layer.content.implied?.map(docPathPointer) : undefined,
        only_removes: onlyRemoves(layer) || undefined,
        size: body?.sizeBytes ?? Buffer.byteLength(text ?? ''),
        hash: body?.hash ?? null,
        blocked: blocked ?? null,
        entry:
          entry === undefined
            ? null
            : {
                origin: entry.origin,
                epoch: entry.epoch ?? null,
                save_method: entry.saveMethod,
                topics: [...entry.topics],
                fetched:
                  fetched === undefined
                    ? null
                    : { hash: fetched.hash, etag: fetched.etag, last_modified: fetched.lastModified },
              },
      };
    }),
  };
}
