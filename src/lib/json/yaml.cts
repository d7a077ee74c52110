// A module of its own, which `yaml-document.ts` loads at once and only when it is needed: an import would wait.
module.exports = require('yaml');
