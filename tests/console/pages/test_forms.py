"""Forms: what is filled in, what is wrong, and what was ticked."""

from tests.console.site import Browser, Serving


def test_an_empty_form_complains_of_nothing(browser: Browser) -> None:
    answer = browser.get("/do/create-topic")
    assert answer.status == 200 and 'role="alert"' not in answer.html
    assert 'name="queues" value="8"' in answer.html


def test_an_empty_form_leads_back_to_the_list(browser: Browser) -> None:
    assert 'href="/topics">Back' in browser.get("/do/create-topic").html
    assert 'href="/topics/x">Back' in browser.get("/do/create-topic?topic=x&queues=1").html
    assert 'href="/messages?topic=">Back' in browser.get("/do/send-message-again").html


def test_what_is_wrong_stands_with_its_field(browser: Browser) -> None:
    answer = browser.get("/do/create-topic?topic=a+b&cluster=c&queues=0")
    assert "'a b' does not fit" in answer.text
    assert "Queues at each broker is from 1 to 65,535" in answer.text
    assert "It runs" not in answer.text


def test_a_confirmed_form_that_is_wrong_does_nothing(browser: Browser, console: Serving) -> None:
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=1")
    count = len(console.console.audit.entries)
    answer = browser.post("/do/create-topic", {"token": token, "topic": "a b", "queues": "1"})
    assert answer.status == 422 and "Cluster is needed" in answer.text
    assert len(console.console.audit.entries) == count


def test_an_action_that_is_not_there_is_not_found(browser: Browser) -> None:
    assert browser.get("/do/no-such-action").status == 404


def test_what_is_ticked_several_times_is_one_field(browser: Browser) -> None:
    answer = browser.get("/do/resend-dead-letters?group=g&id=A&id=B")
    assert "wakelog dlq resend g --id A --id B" in answer.text


def test_an_account_that_is_typed_stands_in_no_url(browser: Browser, console: Serving) -> None:
    empty = browser.get("/do/switch-master").html
    assert '<form class="fields" method="post">' in empty and 'name="preview" value="1"' in empty
    count = len(console.console.audit.entries)
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=1")
    typed = {"broker": "nowhere", "register": "etcd://me:secret@127.0.0.1:1", "to": ""}
    answer = browser.post("/do/switch-master", {"token": token, "preview": "1", **typed})
    assert answer.status == 200 and "there is no broker nowhere" in answer.text
    assert len(console.console.audit.entries) == count
    assert '<form class="fields">' in browser.get("/do/create-topic").html


def test_what_was_done_is_shown_with_its_command(browser: Browser, console: Serving) -> None:
    browser.submit("/do/create-topic", topic="audited", cluster="DefaultCluster", queues="1")
    text = browser.get("/audit?q=audited").text
    assert "wakelog admin updateTopic -c DefaultCluster -t audited -r 1 -w 1 -p 6 done" in text
    assert "everyone 127.0.0.1" in text
    assert "with “no-such-action”" in browser.get("/audit?q=no-such-action").text
