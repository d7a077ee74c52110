import { createOpaFront, type OpaFront } from '../../../embedded/rest/opa-front.js';
import type { DecisionSource } from '../../../embedded/types.js';
import { createHostCheck } from '../../../http/request-guards.js';
import { SyncError } from '../../../lib/errors.js';
import type { Endpoint } from '../../../lib/net/tls.js';
import type { Logger } from '../../../lib/observe/log.js';
import type { ClientSettings } from '../../options.js';
import { addressInUse, whenFree } from '../opa/opa-address.js';
import { listenAddress, splitAddress } from '../opa/opa-args.js';
import { ownOrigins } from '../opa/opa-authz.js';

/** Settings of {@link createEngineFront}. */
type EngineFrontSettings = Pick<
  ClientSettings,
  'engineUrl' | 'inlineEngineConfig' | 'inlineEngineOrigins' | 'allowedHosts'
>;

/** OPA's REST API of an embedded engine, where an inline engine would listen. */
export interface EngineFront {
  /** Where it listens. */
  readonly place: Endpoint;
  /**
   * Listens. Waits for an engine that a killed client left behind. Rejects with
   * `engine_address_in_use` if another program has the address.
   */
  listen(signal: AbortSignal): Promise<void>;
  /** Lets requests under way finish. */
  close(): Promise<void>;
}

/**
 * Creates the REST API of an embedded engine. Throws `config_invalid` for an address that is not a
 * host and a port.
 */
export function createEngineFront(
  settings: EngineFrontSettings,
  deps: { readonly source: DecisionSource; readonly isReady: () => boolean; readonly log: Logger },
): EngineFront {
  const { engineUrl, inlineEngineConfig: config = {} } = settings;
  const address = listenAddress({ engineUrl, config });
  const at = splitAddress(address);
  if (at === undefined) {
    throw new SyncError(
      'config_invalid',
      `addr of SYNC_INLINE_ENGINE_CONFIG is ${address}: an embedded engine listens at a host and a port, such as 0.0.0.0:8181`,
    );
  }
  const { host, port } = at;
  // Without a host it listens on all addresses.
  const checkHost = createHostCheck({ host: host ?? '0.0.0.0', names: settings.allowedHosts });
  const front: OpaFront = createOpaFront({ host, port, origins: ownOrigins(settings) }, { ...deps, checkHost });
  return {
    place: { host: host ?? '0.0.0.0', port },
    listen: async (signal) => {
      await whenFree(address, { engineUrl }, signal);
      try {
        await front.listen();
      } catch (error) {
        const code = error instanceof SyncError ? (error.cause as NodeJS.ErrnoException | undefined)?.code : undefined;
        throw code === 'EADDRINUSE' ? addressInUse(address) : error;
      }
    },
    close: () => front.close(),
  };
}
