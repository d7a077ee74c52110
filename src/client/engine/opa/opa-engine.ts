import type { DocPath } from '../../../wire/doc-path.js';
import type { ArrivingBody } from '../../fetch/arriving-file.js';
import { MARKER_PATH, Marker } from '../marker.js';
import type { OpaRest } from './opa-rest.js';

/** The common part of all OPA engines: documents over REST. */
export abstract class OpaEngine {
  /** See `PolicyEngine.reserved`. */
  readonly reserved: readonly DocPath[];
  /** See `PolicyEngine.occupied`. */
  readonly occupied: readonly DocPath[];
  readonly marker: Marker;
  protected readonly rest: OpaRest;

  /** `reserved`: reserved documents in addition to the marker. */
  constructor(rest: OpaRest, options: { reserved?: readonly DocPath[] | undefined; doubtMs?: number | undefined }) {
    this.rest = rest;
    this.reserved = [MARKER_PATH, ...(options.reserved ?? [])];
    this.occupied = this.reserved;
    this.marker = new Marker(rest, options);
  }

  prepareUpload(path: DocPath, arriving: ArrivingBody): void {
    this.rest.prepareUpload(path, arriving);
  }

  writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void> {
    return this.rest.write([{ op: 'put', path, text: () => text }], signal);
  }

  read(path: DocPath, signal: AbortSignal): Promise<string> {
    return this.rest.getText(path, signal);
  }
}
