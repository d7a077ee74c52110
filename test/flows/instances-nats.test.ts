import { instancesSuite } from '../support/instances-suite.js';

await instancesSuite('NATS');
