#!/bin/sh
# Eight clients of orders_server.sh: `orders_load.sh PORT ORDERS ROWS` inserts so many, ROWS in one transaction.
set -e
mariadb-admin --no-defaults -h 127.0.0.1 -P "$1" -u shop --connect-timeout=1 --wait=30 ping >/dev/null 2>&1
one='INSERT INTO orders (item) VALUES (7);'
all=$(seq "$3" | sed "s/.*/$one/")
exec mariadb-slap --no-defaults -h 127.0.0.1 -P "$1" -u shop --create-schema=shop --no-drop --concurrency=8 --silent \
    --delimiter=';' --query="BEGIN;${all}COMMIT;" --number-of-queries="$(($2 / $3 * ($3 + 2)))"
