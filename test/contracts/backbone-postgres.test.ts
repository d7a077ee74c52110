import { backboneContract } from '../support/backbone-contract.js';

await backboneContract('Postgres', { weak: { lines: ['fsync=off'], reason: /fsync is off/ } });
