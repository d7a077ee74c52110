import { SyncError } from '../../lib/errors.js';
import type { PartRulesOf } from '../../lib/settings/given-parts.js';
import type { ClientSettings } from '../options.js';

/**
 * Where the policy engine runs. `inline`: an OPA process that the client starts. `external`: an OPA
 * that somebody else runs. `embedded`: OPA inside the package.
 */
export type EngineKind = 'inline' | 'external' | 'embedded';

/** The settings that select the engine. */
export type EngineKindSettings = Pick<
  ClientSettings,
  | 'engine'
  | 'engineUrl'
  | 'inlineEngineEnabled'
  | 'inlineEngineExecPath'
  | 'inlineEngineOpen'
  | 'inlineEngineBuiltinsOff'
  | 'inlineEngineEnv'
  | 'inlineEngineConfig'
>;

/** What the settings select. */
interface SelectedEngine {
  readonly kind: EngineKind;
  /** The setting that selects it. */
  readonly by: string;
}

/**
 * Members of SYNC_INLINE_ENGINE_CONFIG that an embedded engine follows, too, or that mean nothing
 * to it.
 */
const SHARED_OPTIONS: ReadonlySet<string> = new Set(['addr', 'v0_compatible', 'log_level']);

/**
 * Returns the engine that the settings select: SYNC_ENGINE; otherwise external by
 * SYNC_INLINE_ENGINE_ENABLED=false, or inline by a setting that only an inline engine follows.
 * Undefined if they select none: then the engine is inline where there is an OPA program, and
 * embedded elsewhere. Throws `config_invalid` if settings contradict each other.
 */
export function selectEngine(settings: EngineKindSettings): SelectedEngine | undefined {
  const { engine, inlineEngineEnabled } = settings;
  const [inlineOnly] = inlineOnlySettings(settings);
  if (engine !== undefined) {
    const problems = contradictions(settings, engine);
    if (problems.length > 0) throw new SyncError('config_invalid', problems.join('\n  '));
    return { kind: engine, by: 'SYNC_ENGINE' };
  }
  if (!inlineEngineEnabled) return { kind: 'external', by: 'SYNC_INLINE_ENGINE_ENABLED' };
  return inlineOnly === undefined ? undefined : { kind: 'inline', by: inlineOnly };
}

function contradictions(settings: EngineKindSettings, engine: EngineKind): string[] {
  const problems: string[] = [];
  if (engine !== 'external' && !settings.inlineEngineEnabled) {
    problems.push(
      `SYNC_ENGINE is ${engine}, but SYNC_INLINE_ENGINE_ENABLED (or OPAL_INLINE_OPA_ENABLED) is false, which selects the external engine: unset one of them`,
    );
  }
  if (engine !== 'embedded') return problems;
  const names = inlineOnlySettings(settings);
  if (names.length > 0) {
    problems.push(
      `SYNC_ENGINE is embedded, but only an inline engine follows ${names.join(', ')}: unset ${names.length === 1 ? 'it' : 'them'}, or set SYNC_ENGINE=inline`,
    );
  }
  if (settings.engineUrl.startsWith('https:')) {
    problems.push(
      'SYNC_ENGINE is embedded, but SYNC_POLICY_STORE_URL is https, which an embedded engine does not serve: start it with http://, or set SYNC_ENGINE=inline and tls_cert_file of SYNC_INLINE_ENGINE_CONFIG',
    );
  }
  return problems;
}

/** Returns the names of the settings in use that only an inline engine follows. */
function inlineOnlySettings(settings: EngineKindSettings): string[] {
  const members = Object.entries(settings.inlineEngineConfig ?? {})
    .filter(([name, value]) => value !== undefined && !SHARED_OPTIONS.has(name))
    .map(([name]) => name);
  const inUse: readonly (readonly [string, boolean])[] = [
    ['SYNC_INLINE_ENGINE_EXEC_PATH', settings.inlineEngineExecPath !== undefined],
    ['SYNC_INLINE_ENGINE_OPEN', settings.inlineEngineOpen],
    ['SYNC_INLINE_ENGINE_BUILTINS_OFF', settings.inlineEngineBuiltinsOff.length > 0],
    ['SYNC_INLINE_ENGINE_ENV', settings.inlineEngineEnv.length > 0],
    [`${members.join(', ')} of SYNC_INLINE_ENGINE_CONFIG`, members.length > 0],
  ];
  return inUse.filter(([, isInUse]) => isInUse).map(([name]) => name);
}

/** OPA's REST API of an engine that the client runs. */
export interface EngineRest {
  /** Its port. Default: that of SYNC_POLICY_STORE_URL, as the programs have it. */
  readonly port?: number | undefined;
}

/** `port` is checked with the settings, which it may contradict. */
export const REST_PARTS: PartRulesOf<EngineRest> = { port: { must: '', isValid: () => true } };

/**
 * The settings with the port that a program asks for. Throws `config_invalid` where that cannot be.
 */
export function withRest(settings: ClientSettings, { port }: EngineRest = {}): ClientSettings {
  if (port === undefined) return settings;
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new SyncError('config_invalid', `rest.port must be a whole number between 1 and 65535; it is ${port}`);
  }
  if (settings.engine === 'external') {
    throw new SyncError('config_invalid', 'rest.port: an external engine has its own address, which is engineUrl');
  }
  if (settings.inlineEngineConfig?.addr !== undefined) {
    const message = 'rest.port and addr of inlineEngineConfig are two addresses of one engine: leave one of them out';
    throw new SyncError('config_invalid', message);
  }
  const url = new URL(settings.engineUrl);
  url.port = String(port);
  return { ...settings, engineUrl: url.href.replace(/\/$/, '') };
}
