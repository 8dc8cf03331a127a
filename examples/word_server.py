"""A web application and its load: `python3 word_server.py THREADS PROCESSES` answers 1,600 requests for the words of a text,
8 at a time, and ends. Each process has one interpreter; the requests of a process are answered by its threads."""

import collections
import http.client
import multiprocessing
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

TEXT = "it is the time that threads wait which nobody sees " * 800
REQUESTS, CLIENTS = 1600, 8


def most_frequent():
    words = collections.defaultdict(int)
    for word in TEXT.split():
        words[word.strip(".,").lower()] += 1
    return max(words, key=words.get)


def answer(connection):
    with connection:
        connection.recv(4096)
        body = most_frequent().encode()
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def serve(listener, threads):
    with ThreadPoolExecutor(threads, "answers") as pool:
        while True:
            connection, _ = listener.accept()
            pool.submit(answer, connection)


def ask(port, number):
    for _ in range(number):
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("GET", "/")
        client.getresponse().read()
        client.close()


def load(port):
    clients = [threading.Thread(target=ask, args=(port, REQUESTS // CLIENTS)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


if __name__ == "__main__":
    threads, processes = int(sys.argv[1]), int(sys.argv[2])
    multiprocessing.set_start_method("fork")
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    workers = [multiprocessing.Process(target=serve, args=(listener, threads), daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    client = multiprocessing.Process(target=load, args=(listener.getsockname()[1],))
    client.start()
    client.join()
    for worker in workers:
        worker.terminate()
    print(REQUESTS, "requests answered")
