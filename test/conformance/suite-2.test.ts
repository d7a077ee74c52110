import { describeSuite } from './suite.js';

describeSuite(1);
