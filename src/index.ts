/** The library: everything that the programs are made of, for embedding. */
export { type Client, type ClientDeps, createClient, type GivenClientSettings } from './client/client.js';
export type {
  DecideOptions,
  Decider,
  Decision,
  DecisionChange,
  DecisionDefaults,
  DecisionPosition,
  DecisionQuestion,
  NoAnswer,
  OnUnavailable,
  ResultDecision,
  UnavailableDecision,
  UndefinedDecision,
} from './client/decisions/decision.js';
export type {
  FetchContext,
  FetchProvider,
  FetchRequest,
  FetchResult,
  FetchSink,
  Outbound,
} from './client/fetch/provider.js';
export { CLIENT_SETTINGS, type ClientSettings } from './client/options.js';
export { ERROR_CODES, type ErrorCode, SyncError } from './lib/errors.js';
export { createLogger, type Logger, type LogOptions, Secret, silentLogger } from './lib/observe/log.js';
export type { LoadedSettings } from './lib/settings/options.js';
export { SERVER_SETTINGS, type ServerSettings } from './server/options.js';
export { createServer, type GivenServerSettings, type Server, type ServerDeps } from './server/server.js';
export { loadSettings } from './settings.js';
