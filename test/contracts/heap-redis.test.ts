import { backboneHeap } from '../support/heap-soak.js';

await backboneHeap('Redis');
