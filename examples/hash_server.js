// A server that hashes passwords, and its load: `node hash_server.js 60` answers as many requests, 16 at a time, over a
// socket of this machine, and ends. Node hashes in the threads of libuv's pool, whose number is UV_THREADPOOL_SIZE.
const crypto = require('crypto');
const http = require('http');

const total = Number(process.argv[2] || 60);
const server = http.createServer((request, response) => {
  crypto.pbkdf2('secret', request.url, 15000, 64, 'sha512', (error, key) => response.end(key.toString('hex')));
});

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  let started = 0;
  let done = 0;
  const ask = () => {
    if (started === total) return;
    const path = `/${started++}`;
    http.get({ host: '127.0.0.1', port, path, agent }, (response) => {
      response.resume();
      response.on('end', () => {
        if (++done === total) {
          console.log(`${done} hashes`);
          agent.destroy();
          server.close();
        } else ask();
      });
    });
  };
  for (let n = 0; n < 16; n++) ask();
});
