import { backboneHeap } from '../support/heap-soak.js';

await backboneHeap('NATS');
