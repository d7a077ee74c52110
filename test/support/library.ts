import { pathToFileURL } from 'node:url';
import type * as Library from '../../src/index.js';
import { installedPackage } from './installed-package.js';

/**
 * The library of the package as it ships: flow tests take from here what they would import from `policysync`. Its classes are
 * not those of `src/`: a SyncError that it throws is an `instanceof` of this one alone.
 */
const library = (await import(pathToFileURL(installedPackage().main).href)) as typeof Library;

export const {
  CLIENT_SETTINGS,
  createClient,
  createLogger,
  createServer,
  ERROR_CODES,
  loadSettings,
  Secret,
  SERVER_SETTINGS,
  silentLogger,
  SyncError,
} = library;
