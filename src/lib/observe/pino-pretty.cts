// A module of its own, which `log.ts` loads at once and only when it is needed: an import would wait.
module.exports = require('pino-pretty');
