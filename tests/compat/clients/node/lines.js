'use strict';

// What the programs for Node.js clients share: requests come in lines, answers go out in lines.

const readline = require('readline');

/** Libraries write to standard output too; ours goes where they do not reach. */
const write = process.stdout.write.bind(process.stdout);
console.log = console.error;
console.info = console.error;

function tell(line) {
  write(JSON.stringify(line) + '\n');
}

function describe(error) {
  const code = error && error.code !== undefined ? ` (code ${error.code})` : '';
  return `${error && error.message ? error.message : error}${code}`;
}

/** Answers each request by the function of that name. */
function serve(actions) {
  readline.createInterface({ input: process.stdin }).on('line', async text => {
    const request = JSON.parse(text);
    try {
      const action = actions[request.do];
      if (!action) throw new Error(`this client cannot ${request.do}`);
      const answer = await action(request);
      tell({ id: request.id, ok: answer === undefined ? null : answer });
    } catch (error) {
      tell({ id: request.id, error: describe(error) });
    }
  });
}

/** Says whether this delivery of a body is one of those that are to fail. */
function failures(fail) {
  const left = new Map(Object.entries(fail || {}));
  return body => {
    const times = left.get(body) || 0;
    left.set(body, times - 1);
    return times > 0;
  };
}

module.exports = { serve, tell, failures };
